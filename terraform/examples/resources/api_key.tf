resource "berth_api_key" "app" {
  name              = "app"
  scopes            = ["inference"]
  monthly_limit_usd = "50"
}
