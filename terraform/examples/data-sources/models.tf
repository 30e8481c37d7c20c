data "berth_models" "chat" {
  kind = "chat"
}
