ephemeral "berth_api_key" "run" {
  name   = "this run"
  scopes = ["inference"]
}
