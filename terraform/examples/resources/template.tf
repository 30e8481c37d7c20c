resource "berth_template" "notebook" {
  name    = "notebook"
  image   = "quay.io/jupyter/pytorch-notebook:cuda12-latest"
  ports   = ["8888/http"]
  disk_gb = 60
}
