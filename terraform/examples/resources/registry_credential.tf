variable "registry_token" {
  type      = string
  ephemeral = true
}

resource "berth_registry_credential" "team" {
  name        = "team"
  server      = "registry.example.com"
  username    = "ci"
  password_wo = var.registry_token
}
