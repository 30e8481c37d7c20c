data "berth_quote" "trainer" {
  kind      = "virtual-machine"
  region    = "us-central-1"
  gpu_count = 8
}
