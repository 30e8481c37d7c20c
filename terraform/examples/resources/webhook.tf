resource "berth_webhook" "alerts" {
  url         = "https://example.com/hooks/berth"
  event_types = ["rental.failed", "rental.terminated"]
}
