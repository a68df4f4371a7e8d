"""`lakesweep demo`: the whole story on an embedded lake."""
