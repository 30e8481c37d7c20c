/** The tables of schema/ as types. Instants come out as numbers and go in as `Date`; JSON goes in as text. */
import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type { Quota } from '../../base/limits.ts'
import type { Role } from '../../contract/account.ts'
import type { Scope } from '../../contract/endpoint.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { EngineName, ModelFile } from '../../contract/model.ts'
import type { NotificationKind } from '../../contract/notification-kind.ts'
import type { ProviderData, ProviderId } from '../../contract/provider-data.ts'
import type { RentalState } from '../../contract/rental.ts'
import type { IdleRule } from '../../contract/workload.ts'
import type { GpuFormFactor, GpuType, NetworkType, Simulation } from '../../contract/shared.ts'
import type { ModelKind } from '../../domain/inference.ts'
import type { EngineSpec, RentalKind } from '../../domain/rental.ts'
import type { Term } from '../../domain/term.ts'
import type { MachineHardware } from '../../domain/machine.ts'
import type { At, AtOrNull, Counted, Json, JsonOr, Nano, NanoOrNull, NanoOrZero, OrNull } from './column.ts'
import type { HostTables } from '../host/host-tables.ts'
import type { MetricTables } from '../rental/metric-tables.ts'
import type { NoticeTables } from '../notice/notice-tables.ts'
import type { OptionTables } from '../account/option-tables.ts'
import type { PortTables } from '../rental/port-tables.ts'
import type { ProviderTables } from '../provider/provider-tables.ts'
import type { RequestTables } from '../request/request-tables.ts'
import type { ServingTables } from '../serving/serving-tables.ts'
import type { Faulted, Leased, VolumeTables } from '../volume/volume-tables.ts'

export interface Tables
  extends
    HostTables,
    MetricTables,
    NoticeTables,
    OptionTables,
    PortTables,
    ProviderTables,
    RequestTables,
    ServingTables,
    VolumeTables {
  installation: { only_row: Generated<boolean>; id: string; key_check: OrNull<string>; created_at: At }
  account: {
    id: string
    name: string
    platform_fee_bp: OrNull<number>
    quota: JsonOr<Partial<Quota>>
    suspended_at: AtOrNull
    runway_warned_h: OrNull<number>
    keeps_bodies: ColumnType<boolean, boolean | undefined, boolean>
    created_at: At
  }
  person: { id: string; email: string; name: OrNull<string>; picture: OrNull<string>; created_at: At }
  member: {
    account_id: string
    person_id: string
    role: Role
    name: OrNull<string>
    mail_confirmed_at: AtOrNull
    created_at: At
  }
  api_key: {
    public_id: string
    account_id: string
    person_id: string
    name: string
    last4: string
    secret_hash: Buffer
    scopes: Scope[]
    allowed_models: OrNull<string[]>
    monthly_limit_nano: NanoOrNull
    total_limit_nano: NanoOrNull
    requests_per_min: OrNull<number>
    tokens_per_min: OrNull<number>
    created_at: At
    expires_at: AtOrNull
    last_used_at: AtOrNull
    revoked_at: AtOrNull
  }
  console_session: { token_hash: Buffer; api_key_id: string; created_at: At; expires_at: At }
  key_spend: { api_key_id: string; month: ColumnType<string, string, string>; spent_nano: Nano }
  ssh_key: { id: string; account_id: string; name: string; public_key: string; fingerprint: string; created_at: At }
  idempotency: {
    account_id: string
    key: string
    operation: string
    body_hash: Buffer
    response_sealed: OrNull<string>
    created_at: At
  }
  rate_window: { subject: string; minute: At; taken: number }
  audit: {
    id: GeneratedAlways<bigint>
    at: At
    actor: string
    action: string
    account_id: OrNull<string>
    subject: OrNull<string>
    reason: OrNull<string>
    detail: JsonOr<Record<string, unknown>>
  }
  loop: { name: string; done_at: AtOrNull; lease_token: OrNull<string>; lease_until: AtOrNull }
  ledger_account: {
    id: GeneratedAlways<bigint>
    account_id: OrNull<string>
    kind:
      | 'available'
      | 'held'
      | 'earnings'
      | 'revenue'
      | 'funding'
      | 'adjustments'
      | 'payouts'
      | 'credit'
      | 'cost_of_goods'
      | 'payables'
    balance_nano: NanoOrNull
  }
  posting: {
    id: GeneratedAlways<bigint>
    key: string
    kind:
      | 'purchase'
      | 'credit'
      | 'adjustment'
      | 'refund'
      | 'hold'
      | 'release'
      | 'charge'
      | 'payout'
      | 'credit_draw'
      | 'credit_repayment'
      | 'cost'
    at: At
    /** null: a cost, which is on no statement. */
    account_id: OrNull<string>
    memo: string
    actor: OrNull<string>
    reason: OrNull<string>
    rental_id: OrNull<number>
    volume_id: OrNull<number>
    api_key_id: OrNull<string>
    model: OrNull<string>
  }
  transfer: { id: GeneratedAlways<bigint>; posting_id: bigint; from_id: bigint; to_id: bigint; amount_nano: Nano }
  hold: { key: string; account_id: string; amount_nano: Nano; created_at: At; expires_at: AtOrNull }
  credit_line: { account_id: string; line_nano: Nano; used_nano: NanoOrZero }
  machine: {
    id: string
    driver: ProviderId
    cluster_name: string
    region: string
    offering: 'marketplace' | 'virtual-machine' | 'bare-metal'
    supplier_id: OrNull<string>
    status: 'node_ready' | 'node_draining' | 'node_lost' | 'node_cleaning' | 'node_quarantined'
    listed: ColumnType<boolean, boolean | undefined, boolean>
    gpu_type: OrNull<GpuType>
    gpu_model: string
    gpu_ram_mib: number
    gpu_form_factor: OrNull<GpuFormFactor>
    network_type: NetworkType
    ethernet_variant: OrNull<'normal' | 'rocev2'>
    gpus_total: number
    gpus_claimed: Counted
    gpus_sick: ColumnType<number[], number[] | undefined, number[]>
    gpus_withdrawn: ColumnType<number[], number[] | undefined, number[]>
    gpus_free: GeneratedAlways<number>
    disk_claimed_gb: GeneratedAlways<number>
    disk_gb_per_gpu: GeneratedAlways<number>
    price_nano_per_gpu_hour: NanoOrNull
    has_persistent_storage: ColumnType<boolean, boolean | undefined, boolean>
    hardware: Json<MachineHardware>
    simulation: OrNull<Simulation>
    offer_id: OrNull<string>
    sold_whole: ColumnType<boolean, boolean | undefined, boolean>
    cost_nano_per_gpu_hour: NanoOrNull
    asking_nano_per_gpu_hour: NanoOrNull
    preference: Counted
    sells_below_cost: ColumnType<boolean, boolean | undefined, boolean>
    seen_at: At
    created_at: At
  }
  gpu_price: {
    machine_type: 'virtual-machine' | 'bare-metal'
    region: string
    gpu_type: GpuType
    network_type: NetworkType
    gpu_count: number
    nano_per_gpu_hour: Nano
    enabled: boolean
    updated_at: At
    provider_account_id: OrNull<string>
  }
  storage_price: { region: string; nano_per_gb_hour: Nano; enabled: boolean; updated_at: At }
  reserve_option: {
    id: GeneratedAlways<bigint>
    account_id: OrNull<string>
    term_period_days: number
    discount_percentage: ColumnType<string, number, number>
  }
  reservation_request: { id: GeneratedAlways<bigint>; account_id: string; gpu_count: number; created_at: At }
  rental: {
    id: GeneratedAlways<number>
    account_id: string
    person_id: string
    api_key_id: OrNull<string>
    kind: RentalKind
    name: string
    label: OrNull<string>
    region: string
    cluster_name: string
    gpu_type: OrNull<GpuType>
    gpu_count: number
    network_type: NetworkType
    driver: ProviderId
    spec: Json<EngineSpec>
    user_metadata: ColumnType<Readonly<Record<string, unknown>>, string | undefined, string>
    convert_on_expiry: OrNull<boolean>
    monitoring_enabled: OrNull<boolean>
    auto_terminate_at: AtOrNull
    stop_at: AtOrNull
    start_requested_at: AtOrNull
    stopped_nano_per_hour: NanoOrNull
    cpu_nano_per_hour: NanoOrNull
    reboots: Counted
    reboots_done: Counted
    spending_limit_nano: NanoOrNull
    idle: ColumnType<IdleRule | null, string | null | undefined, string | null>
    secret_names: ColumnType<string[], string[] | undefined, string[]>
    status: ColumnType<RentalState, RentalState | undefined, RentalState>
    status_reason: OrNull<string>
    termination_note: OrNull<string>
    status_since: At
    stuck_at: AtOrNull
    created_at: At
    updated_at: AtOrNull
    started_at: AtOrNull
    terminate_requested_at: AtOrNull
    terminated_at: AtOrNull
    nonce: GeneratedAlways<string>
    external_id: OrNull<string>
    provider_data: ColumnType<ProviderData | null, string | null | undefined, string | null>
    create_asked_at: AtOrNull
    destroy_asked_at: AtOrNull
    seen_at: AtOrNull
    missing_since: AtOrNull
    incarnation: OrNull<string>
    refused_by: ColumnType<string[], string[] | undefined, string[]>
    released_at: AtOrNull
  } & Leased &
    Faulted
  gpu_claim: { machine_id: string; gpu_index: number; rental_id: number; claimed_at: At }
  commitment: {
    rental_id: number
    total_nano: Nano
    rates: Json<Array<{ days: number; nanoPerHour: string }>>
    closed_at: AtOrNull
    closed_rate_nano: NanoOrNull
    at_fault: ColumnType<boolean, boolean | undefined, boolean>
    rerated_nano: NanoOrZero
    supplier_nano: NanoOrZero
  }
  term: {
    rental_id: number
    n: number
    term_type: Term['termType']
    effective_at: At
    cost_nano_per_hour: Nano
    reservation_ends_at: AtOrNull
    term_period_days: ColumnType<string | null, number | null | undefined, number | null>
    discount_percentage: ColumnType<string | null, number | null | undefined, number | null>
    original_cost_nano: NanoOrNull
    warned_days: OrNull<number>
    closed: ColumnType<boolean, boolean | undefined, boolean>
  }
  segment: {
    id: GeneratedAlways<bigint>
    account_id: string
    rental_id: OrNull<number>
    volume_id: OrNull<number>
    hold_key: string
    started_at: At
    ended_at: AtOrNull
    while_stopped: ColumnType<boolean, boolean | undefined, boolean>
    without_gpus: ColumnType<boolean, boolean | undefined, boolean>
    price_nano_per_hour: Nano
    supplier_id: OrNull<string>
    platform_fee_bp: OrNull<number>
    settled_until: At
    settled_nano: NanoOrZero
    supplier_nano: NanoOrZero
    settlements: Counted
    due_at: At
  }
  event: {
    id: GeneratedAlways<bigint>
    account_id: string
    at: At
    type: EventType
    subject_kind: string
    subject_id: string
    data: Json<Record<string, unknown>>
    notice: OrNull<NotificationKind>
  }
  webhook: {
    id: string
    account_id: string
    url: string
    description: OrNull<string>
    event_types: OrNull<EventType[]>
    secret_sealed: string
    old_secret_sealed: OrNull<string>
    old_secret_until: AtOrNull
    enabled: ColumnType<boolean, boolean | undefined, boolean>
    disabled_reason: OrNull<string>
    created_at: At
    updated_at: AtOrNull
  }
  webhook_delivery: {
    id: string
    webhook_id: string
    event_id: bigint
    state: ColumnType<'pending' | 'delivered' | 'failed', 'pending' | undefined, 'pending' | 'delivered' | 'failed'>
    last_status: OrNull<number>
    last_error: OrNull<string>
    last_at: AtOrNull
    created_at: At
  } & Leased
  ledger_check: {
    id: GeneratedAlways<bigint>
    at: At
    took_ms: number
    findings: number
  }
  model: {
    name: string
    kind: ModelKind
    engine: OrNull<EngineName>
    files: ColumnType<ModelFile[] | null, string | null | undefined, string | null>
    context_tokens: OrNull<number>
    max_output_tokens: OrNull<number>
    input_nano: NanoOrZero
    cached_nano: NanoOrZero
    output_nano: NanoOrZero
    pixel_step_nano: NanoOrZero
    character_nano: NanoOrZero
    supports_tools: ColumnType<boolean, boolean | undefined, boolean>
    supports_image_input: ColumnType<boolean, boolean | undefined, boolean>
    enabled: ColumnType<boolean, boolean | undefined, boolean>
    account_id: OrNull<string>
    shared_with: ColumnType<string[], string[] | undefined, string[]>
    adapter_of: OrNull<string>
    follows_base_price: ColumnType<boolean, boolean | undefined, boolean>
    follows_base_sharing: ColumnType<boolean, boolean | undefined, boolean>
    created_at: At
  }
  deployment: {
    id: string
    model: string
    protocol: 'chat' | 'images' | 'txt2img' | 'speech'
    url: string
    upstream_model: string
    key_sealed: OrNull<string>
    weight: Counted
    concurrency: Counted
    connect_ms: Counted
    first_byte_ms: Counted
    between_bytes_ms: Counted
    total_ms: Counted
    reads_metrics: ColumnType<boolean, boolean | undefined, boolean>
    drained_at: AtOrNull
    created_at: At
  }
  offered_model: { name: string; at: At }
  gateway: { id: string; seen_at: At }
  purse: { hold_key: string; gateway_id: string; account_id: string; api_key_id: OrNull<string> }
}
