resource "berth_virtual_machine" "trainer" {
  region             = "us-east-1"
  gpu_type           = "h100"
  network_type       = "infiniband"
  gpu_count          = 8
  label              = "training"
  spending_limit_usd = "400"
  auto_terminate_at  = "2031-01-31T18:00:00Z"
}
