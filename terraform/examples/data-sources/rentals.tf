data "berth_rentals" "training" {
  search = "training"
}
