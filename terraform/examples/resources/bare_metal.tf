resource "berth_bare_metal" "cluster" {
  region       = "us-central-1"
  gpu_type     = "h100"
  network_type = "infiniband"
  gpu_count    = 16
  volumes      = [{ volume_id = berth_volume.data.id }]
}
