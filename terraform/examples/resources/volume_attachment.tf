resource "berth_volume_attachment" "data" {
  rental_id = berth_virtual_machine.trainer.id
  volume_id = berth_volume.data.id
  path      = "/data"
}
