variable "hf_token" {
  type      = string
  ephemeral = true
}

resource "berth_secret" "hf" {
  name             = "HF_TOKEN"
  value_wo         = var.hf_token
  value_wo_version = 1
}
