"""The store in DynamoDB."""
