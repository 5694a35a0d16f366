# Ebbtide as a Lambda function, from deploy/lambda/cloudformation.yaml: roles, tables, rules and alarms are those of that
# template, which is tested. Build the package first: make lambda CONFIG=ebbtide.yaml

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

# The key changes with the package, so a new package is deployed.
resource "aws_s3_object" "package" {
  bucket = var.code_bucket
  key    = "ebbtide/${filesha256(var.package)}.zip"
  source = var.package
}

resource "aws_cloudformation_stack" "ebbtide" {
  name          = var.name
  template_body = file("${path.module}/../lambda/cloudformation.yaml")
  capabilities  = ["CAPABILITY_IAM"]
  tags          = var.tags

  parameters = {
    CodeBucket          = aws_s3_object.package.bucket
    CodeKey             = aws_s3_object.package.key
    ClusterName         = var.cluster_name
    SubnetIds           = join(",", var.subnet_ids)
    SecurityGroupIds    = join(",", var.security_group_ids)
    JoinTokenParameter  = var.join_token_parameter
    KubeconfigParameter = var.kubeconfig_parameter
    Schedule            = var.schedule
    Runtime             = var.runtime
    AlarmEmail          = var.alarm_email
    LogRetentionDays    = tostring(var.log_retention_days)
    VpcId               = var.vpc_id
    RouteTableIds       = join(",", var.route_table_ids)
    CreateSpotRole      = tostring(var.create_spot_role)
  }
}
