resource "berth_volume" "data" {
  label   = "datasets"
  region  = "us-central-1"
  size_gb = 512
}
