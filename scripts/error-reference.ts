/** docs/errors.md: every reason that the API can answer with, taken from the table in the contract. */
import { instantOf } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import { accessReasons } from '../src/contract/reason/reason-access.ts'
import { accountReasons } from '../src/contract/reason/reason-account.ts'
import { textOf, type FailureKind, type ReasonEntry } from '../src/contract/reason/reason-entry.ts'
import { mcpReasons } from '../src/contract/reason/reason-mcp.ts'
import { modelReasons } from '../src/contract/reason/reason-model.ts'
import { portReasons } from '../src/contract/reason/reason-port.ts'
import { rentalReasons } from '../src/contract/reason/reason-rental.ts'
import { supplyReasons } from '../src/contract/reason/reason-supply.ts'
import type { DetailsOf } from '../src/contract/result.ts'

const documented = {
  ...accessReasons,
  ...accountReasons,
  ...rentalReasons,
  ...portReasons,
  ...supplyReasons,
  ...modelReasons,
  ...mcpReasons,
}
type Documented = keyof typeof documented

const sections = [
  ['Requests, keys and limits', accessReasons],
  ['Accounts and money', accountReasons],
  ['Rentals and storage volumes', rentalReasons],
  ['HTTP ports of rentals', portReasons],
  ['Machines, hosts and prices', supplyReasons],
  ['Models and inference', modelReasons],
  ['Tools of agents', mcpReasons],
] as const

/** The details of an example, for each reason whose sentence needs them. */
const samples: {
  readonly [R in Documented as object extends DetailsOf<R> ? never : R]: DetailsOf<R>
} = {
  expired_key: { expiredAt: instantOf(Date.parse('2026-11-01T12:00:00Z')) },
  run_over_limit: { cost: usd('12.5'), limit: usd('5') },
  confirmation_required: { name: 'calm-ivory-horse', message: 'Terminate calm-ivory-horse?' },
  job_path_reserved: { path: '/berth/input.json' },
  job_only_simulated: { gpus: '1 × RTX 4090' },
  missing_scope: { scope: 'compute:write' },
  sso_required: { provider: 'Example Corp' },
  wrong_code: { left: 4 },
  oauth_client_invalid: { problem: 'Its document is about another client.' },
  oauth_client_unreachable: { host: 'agent.example.com', problem: 'status 404' },
  origin_not_allowed: { origin: 'https://app.example.com' },
  rate_limited: { limit: 60 },
  too_many_streams: { limit: 10, streams: 'event' },
  too_many_terminals: { limit: 8 },
  too_many_uploads: { max: 8 },
  too_many_batches: { max: 100 },
  bad_idempotency_key: { maxChars: 200 },
  server_busy: { account: undefined },
  unknown_path: { route: 'GET /v2/nothing' },
  owner_only: { action: 'manage members' },
  scope_not_held: { missing: ['billing:write'] },
  viewer_is_read_only: { scopes: ['compute:read', 'billing:read'] },
  exceeds_parent_key_limit: { limit: 60, unit: 'requests' },
  exceeds_parent_key_origins: { origins: ['https://app.example.com'] },
  not_interruptible: { machine: 'calm-ivory-horse' },
  quota_exceeded: { quota: '8 GPUs', used: '6' },
  url_refused: { message: 'The URL must start with https://.' },
  bad_range: { fault: 'order', maxDays: 366 },
  insufficient_balance: { amount: usd('2.49'), purpose: 'first_hour' },
  key_spending_limit: { amount: usd('2.49'), left: usd('1') },
  budget_scope_value: { scope: 'label' },
  statement_too_long: { maxLines: 100_000 },
  mail_refused: { message: 'connect ECONNREFUSED' },
  still_a_supplier: { unpaid: usd('12.5') },
  top_up_range: { min: usd('5'), max: usd('10000') },
  refund_too_large: { max: usd('12.5') },
  provider_not_supported: { provider: 'verda' },
  provider_not_found: { name: 'main' },
  provider_in_use: { name: 'main', rentals: 3, volumes: 1 },
  bill_not_found: { id: 'bil_4YtQ' },
  too_many_bills: { name: 'main', max: 500 },
  provider_unreachable: { name: 'main', message: 'GET /api/v1/instances returned 401' },
  bad_provider_url: { message: 'The URL must start with https://' },
  cluster_not_found: { name: 'lab' },
  cluster_unreachable: { name: 'lab', message: 'connect ECONNREFUSED' },
  no_capacity: { gpus: '8 × h100 with infiniband', where: 'in us-central-1' },
  no_spare_gpus: { gpus: '1 × H100', where: 'on the marketplace' },
  option_not_offered: { option: 'h200 with ethernet', region: 'us-central-1' },
  region_disabled: { option: 'h200 with ethernet', region: 'us-central-1' },
  price_changed: { perHour: usd('2.79'), max: usd('2.49') },
  discount_not_granted: { fault: { days: 30, maxPercentage: 10 } },
  term_not_offered: { days: 7, offered: [30, 90, 365] },
  option_not_supported: { option: 'command', kind: 'virtual-machine' },
  disk_too_large: { diskGb: 500, maxGb: 200 },
  secret_not_found: { name: 'HF_TOKEN', isReference: true },
  template_not_found: { id: 'tpl_jupyter' },
  template_param_missing: { param: 'HF_TOKEN' },
  template_secrets_not_named: { secrets: ['HF_TOKEN'] },
  template_version_missing: { id: 'tpl_7Qm2', version: 3 },
  gpu_too_small: { neededGb: 80, gpuGb: 24 },
  secret_in_use: { rentalIds: [17] },
  registry_credential_mismatch: { server: 'registry.example.com' },
  registry_credential_in_use: { rentalIds: [17] },
  limit_below_term: { total: usd('1613.52') },
  already_terminated: { rentalId: 17, status: 'Terminated' },
  not_running: { rentalId: 17, status: 'Pending' },
  not_stopped: { rentalId: 17, status: 'Stopping' },
  cannot_stop: { rentalId: 17 },
  cannot_reboot: { rentalId: 17 },
  runs_without_gpus: { rentalId: 17 },
  cannot_move: { rentalId: 17 },
  no_gpu_elsewhere: { gpus: '1 × NVIDIA-GeForce-RTX-4090' },
  no_gpu_on_host: { gpus: 2, free: 1 },
  rental_not_running: { rentalId: 17, status: 'Failed' },
  simulated_machine: { lacks: 'login' },
  app_not_running: { name: 'brave-teal-otter', status: 'Pending' },
  port_not_answering: { port: 8888 },
  port_not_http: { port: 8888 },
  port_timeout: { port: 8888, seconds: 300 },
  port_not_found: { port: 8888 },
  too_many_port_tokens: { max: 20 },
  udp_not_supported: { port: 8888 },
  volume_not_found: { id: 3 },
  volume_not_active: { id: 3, state: 'deleting' },
  volume_attached: { rentalIds: [17] },
  volume_kind: { id: 3, kind: 'container' },
  volume_in_use: { id: 3, rentalIds: [17] },
  duplicate_volume: { id: 3 },
  mount_path_in_use: { path: '/data/models', other: '/data' },
  volume_fixed: { rentalId: 17 },
  volume_not_larger: { sizeGb: 512 },
  volume_growing: { id: 3, sizeGb: 1_024 },
  volume_being_copied: { id: 3 },
  volume_operation_unsupported: { id: 3, operation: 'grow' },
  node_region_mismatch: { node: 'gpu-host-1', region: 'us-central-1' },
  not_attached: { rentalId: 17 },
  not_bare_metal: { rentalId: 17 },
  region_mismatch: { region: 'us-central-1', rental: { id: 17, region: 'us-east' } },
  cluster_mismatch: { cluster: 'lab' },
  host_mismatch: { host: 'pier-1', rentalId: 17 },
  too_many_attachments: { max: 64 },
  no_storage_capacity: { freeGb: 512, sizeGb: 1024, region: 'us-central-1', place: 'region' },
  node_not_found: { node: 'pier-1', cluster: 'us-east' },
  node_not_ready: { node: 'pier-1' },
  too_many_ports: { max: 20 },
  instance_not_found: { id: 'calm-blue-harbor' },
  machine_not_ready: { status: 'node_lost' },
  gpu_out_of_range: { gpus: 4 },
  offer_not_sellable: { message: 'A GPU is listed twice.' },
  offering_changed: { host: 'pier-1', offering: 'marketplace' },
  name_in_use: { name: 'pier-1' },
  host_not_ready: { state: 'cleaning' },
  host_not_quarantined: { state: 'ready' },
  bad_inventory: { message: 'Must be an Ed25519 private key.' },
  model_not_found: { model: 'owner/model' },
  model_exists: { model: 'owner/model' },
  too_many_models: { max: 1000 },
  engine_mismatch: { engine: 'llama', kind: 'chat' },
  files_mismatch: { engine: undefined },
  too_many_deployments: { max: 100 },
  protocol_mismatch: { protocol: 'images', kinds: ['image'] },
  engine_image_unavailable: { cause: 'the engines are not built: run npm run build' },
  still_downloading: { model: 'owner/model' },
  weights_mismatch: { file: 'model.gguf', model: 'owner/model' },
  recipe_mismatch: { recipe: 'vllm', kind: 'speech' },
  recipe_option: { recipe: 'vllm', option: 'weights', fault: 'missing' },
  catalog_model_not_found: { model: 'qwen3', similar: ['qwen3-8b'] },
  model_gated: { model: 'llama-3.1-8b' },
  driver_too_old: { recipe: 'vllm', needs: '13.0', has: '12.4' },
  gpu_vendor_differs: { recipe: 'vllm', needs: 'nvidia', has: 'amd' },
  heads_not_divisible: { heads: 32, gpuCount: 3 },
  model_does_not_fit: {
    model: 'owner/model',
    need: '19.0 GiB (14.2 GiB of weights × 1.2 + 2 GiB)',
    have: '14.4 GiB (1 × 16.0 GiB, of which the engine uses 90%)',
  },
  model_not_allowed: { model: 'owner/model' },
  wrong_model_kind: { model: 'owner/model', kind: 'image' },
  audio_format: { format: 'aac', available: ['mp3', 'opus'] },
  model_loading: { message: 'The model owner/model is being downloaded (40%).' },
  not_supported: { model: 'owner/model', feature: 'tools' },
  sound_format: { format: 'm4a or MP4' },
  sound_too_long: { hours: 4 },
  no_deployment: { model: 'owner/model' },
  overloaded: { model: 'owner/model', retryAfterMs: 2_000 },
  engine_timeout: { model: 'owner/model' },
  engine_failed: { model: 'owner/model' },
  upstream_error: { model: 'owner/model' },
  rejected_by_model: { message: 'The message of the engine.' },
  context_length_exceeded: { message: "This model's maximum context length is 4096 tokens." },
  concurrency_limit: { limit: 100 },
  model_deployed: { model: 'demo/model' },
  only_simulated_machines: { gpus: '1 × H100' },
  hourly_budget: { costPerHour: usd('2.49'), left: usd('1') },
  conversation_too_long: { max: '1000 responses' },
  model_queue_full: { model: 'demo/model', retryAfterMs: 2_000 },
}

const statuses: Readonly<Record<FailureKind, string>> = {
  invalid: '400',
  conflict: '400',
  no_capacity: '400',
  unauthenticated: '401',
  forbidden: '403',
  insufficient_balance: '402 (v1), 403 (v2)',
  not_found: '404',
  rate_limited: '429',
  unavailable: '503',
}

function rowOf(reason: string, entry: ReasonEntry): string {
  const details = (samples as Readonly<Record<string, object>>)[reason] ?? {}
  const status = entry.status ?? statuses[entry.kind]
  return `| \`${reason}\` | ${status} | ${textOf(entry.sentence, details)} | ${textOf(entry.next ?? '', details)} |`
    .replaceAll('<', '&lt;')
    .replace(/ {2,}\|$/, ' |')
}

export function renderErrorReference(): string {
  const tables = sections.map(([title, reasons]) => {
    const rows = Object.entries(reasons)
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([reason, entry]) => rowOf(reason, entry))
    return [
      `## ${title}`,
      '',
      '| reason | status | message (example) | what to do |',
      '|---|---|---|---|',
      ...rows,
    ].join('\n')
  })
  return `${[intro, ...tables].join('\n\n')}\n`
}

const intro = `# Errors

An error has a \`reason\`. It is stable: switch on it in programs, and show the \`message\` to people. The message is
the sentence below followed by what to do.

\`npm run error-reference\` generates this page from \`src/contract/reason/reasons.ts\`.

A reason that concerns one field of the request comes with status 400 and an entry in \`issues\` that names the field.
Validation failures have no reason: they list every fault in \`issues\` (v2) or \`detail\` (v1, status 422). A 429 or 503
has a \`Retry-After\` header when waiting helps.`
