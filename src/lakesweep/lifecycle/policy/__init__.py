"""What a policy says: rules, their files, and the retention they give each ref."""
