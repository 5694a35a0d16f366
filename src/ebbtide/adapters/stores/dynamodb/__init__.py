"""The store on DynamoDB."""
