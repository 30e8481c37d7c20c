data "berth_balance" "now" {}
