variable "name" {
  description = "Name of the CloudFormation stack."
  type        = string
  default     = "ebbtide"
}

variable "cluster_name" {
  description = "Name of the cluster; the tag ebbtide.dev/cluster of its instances has this value."
  type        = string
}

variable "package" {
  description = "The package that make lambda built."
  type        = string
  default     = "build/ebbtide-lambda.zip"
}

variable "code_bucket" {
  description = "S3 bucket for the package."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets from which the Kubernetes API and Prometheus can be reached."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups of the function."
  type        = list(string)
}

variable "join_token_parameter" {
  description = "SSM parameter (SecureString) with the join token; only nodes may read it."
  type        = string
}

variable "kubeconfig_parameter" {
  description = "SSM parameter (SecureString) with Ebbtide's own kubeconfig; only the function may read it."
  type        = string
}

variable "schedule" {
  description = "How often a tick runs; at least every max_tick_gap_sec (5 minutes)."
  type        = string
  default     = "rate(1 minute)"
}

variable "runtime" {
  description = "The same that the package was built for."
  type        = string
  default     = "python3.13"
}

variable "alarm_email" {
  description = "Address that is told of alarms. Empty: subscribe to the topic yourself."
  type        = string
  default     = ""
}

variable "log_retention_days" {
  description = "How long the lines of the function are kept."
  type        = number
  default     = 30
}

variable "vpc_id" {
  description = "VPC of the subnets, for endpoints of DynamoDB, EC2 and SSM. Empty: the subnets have a NAT gateway."
  type        = string
  default     = ""
}

variable "route_table_ids" {
  description = "Route tables of the subnets, for the endpoint of DynamoDB; only with vpc_id."
  type        = list(string)
  default     = []
}

variable "create_spot_role" {
  description = "Create the service-linked role of spot; true only if this account has never used spot instances."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of the stack and of what it creates."
  type        = map(string)
  default     = {}
}
