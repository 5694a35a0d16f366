output "node_profile_name" {
  description = "For aws.instance_profile in ebbtide.yaml."
  value       = aws_cloudformation_stack.ebbtide.outputs["NodeProfileName"]
}

output "store_url" {
  description = "For STORE_URL of the command line, which then works on the tables of this stack."
  value       = aws_cloudformation_stack.ebbtide.outputs["StoreUrl"]
}

output "alarm_topic_arn" {
  description = "Told of every alarm."
  value       = aws_cloudformation_stack.ebbtide.outputs["AlarmTopicArn"]
}

output "dead_letter_queue" {
  description = "Events that could not be processed."
  value       = aws_cloudformation_stack.ebbtide.outputs["DeadLetterQueue"]
}
