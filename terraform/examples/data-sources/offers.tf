data "berth_offers" "cheap" {
  gpu_model     = "rtx-4090"
  min_gpus_free = 2
}
