resource "berth_deployment" "chat" {
  name              = "chat"
  recipe            = jsonencode({ name = "vllm", hubModel = "Qwen/Qwen3-8B" })
  gpu_model         = "H100"
  min_replicas      = 0
  max_replicas      = 2
  hourly_budget_usd = "10"
}
