resource "berth_budget" "month" {
  name        = "all machines"
  monthly_usd = "500"
  action      = "stop"
}
