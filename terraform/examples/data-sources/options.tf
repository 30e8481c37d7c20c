data "berth_options" "h100" {
  kind     = "virtual-machine"
  gpu_type = "h100"
}
