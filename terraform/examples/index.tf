terraform {
  required_providers {
    berth = { source = "berth/berth" }
  }
}

# The address and the key come from BERTH_URL and BERTH_KEY.
provider "berth" {
  default_spending_limit_usd = "200"
}
