/** Tables of accounts at other clouds and of what their machines cost. */
import type { ColumnType, GeneratedAlways } from 'kysely'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { At, AtOrNull, Counted, JsonOr, Nano, NanoOrNull, NanoOrZero, OrNull } from '../platform/column.ts'

type Flag = ColumnType<boolean, boolean | undefined, boolean>

export interface ProviderTables {
  provider_account: {
    id: string
    driver: ProviderId
    name: string
    base_url: string
    credentials_sealed: string
    version: Counted
    regions: JsonOr<Record<string, string>>
    markup_bp: OrNull<number>
    floor_nano_per_gpu_hour: NanoOrNull
    fixed_nano_per_gpu_hour: NanoOrNull
    sells_below_cost: Flag
    monthly_cap_nano: NanoOrNull
    preference: Counted
    health: ColumnType<
      'unknown' | 'healthy' | 'stale' | 'broken',
      'unknown' | undefined,
      'healthy' | 'stale' | 'broken'
    >
    health_reason: OrNull<string>
    health_since: At
    answered_at: AtOrNull
    suspended_at: AtOrNull
    created_at: At
    removed_at: AtOrNull
  }
  offer_outcome: {
    driver: ProviderId
    offer_id: string
    at: At
    made: Counted
    no_capacity: Counted
    failed: Counted
    started: Counted
    start_ms: ColumnType<bigint, bigint | undefined, bigint>
    lowest: OrNull<number>
    highest: OrNull<number>
  }
  purchase: {
    id: GeneratedAlways<bigint>
    provider_account_id: string
    rental_id: OrNull<number>
    volume_id: OrNull<number>
    external_id: string
    nano_per_hour: Nano
    increment_ms: number
    minimum_ms: bigint
    bought_at: At
    started_at: At
    ended_at: AtOrNull
    settled_until: At
    settled_nano: NanoOrZero
    settlements: Counted
  }
  provider_turn: {
    provider_account_id: string
    route: string
    next_at: At
  }
  provider_cost: {
    provider_account_id: string
    day: ColumnType<string, string, string>
    rental_id: OrNull<number>
    volume_id: OrNull<number>
    cost_nano: Nano
  }
  provider_bill: {
    id: string
    provider_account_id: string
    digest: string
    label: string
    from_day: ColumnType<string | null, string | null, never>
    to_day: ColumnType<string | null, string | null, never>
    imported_by: string
    imported_at: At
  }
  provider_bill_line: {
    bill_id: string
    machine: string
    billed_nano: Nano
  }
}
