/** The tables of volumes as types, and the columns of rows that loops lease; see store/platform/tables.ts. */
import type { ColumnType, GeneratedAlways } from 'kysely'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { VolumeState } from '../../domain/volume.ts'
import type { At, AtOrNull, Counted, Nano, NanoOrNull, OrNull } from '../platform/column.ts'

/** Why the last call to its engine failed. */
export interface Faulted {
  last_error: OrNull<string>
  last_error_at: AtOrNull
}

export interface Leased {
  due_at: At
  attempts: Counted
  lease_token: OrNull<string>
  lease_until: AtOrNull
}

export interface VolumeTables {
  volume: {
    id: GeneratedAlways<number>
    account_id: string
    person_id: string
    api_key_id: OrNull<string>
    region: string
    driver: ProviderId
    label: string
    size_gb: number
    cost_nano_per_hour: Nano
    state: ColumnType<VolumeState, VolumeState | undefined, VolumeState>
    state_reason: OrNull<string>
    state_since: At
    vip: OrNull<string>
    nonce: GeneratedAlways<string>
    external_id: OrNull<string>
    create_asked_at: AtOrNull
    created_at: At
    updated_at: AtOrNull
    started_at: AtOrNull
    terminated_at: AtOrNull
    machine_id: OrNull<string>
    copy_of: OrNull<number>
    used_gb: OrNull<number>
    grow_to_gb: OrNull<number>
    grow_cost_nano_per_hour: NanoOrNull
  } & Leased &
    Faulted
  attachment: {
    volume_id: number
    rental_id: number
    path: OrNull<string>
    read_only: ColumnType<boolean, boolean | undefined, boolean>
    state: ColumnType<'attaching' | 'attached' | 'detaching', 'attaching' | undefined, 'attached' | 'detaching'>
    asked_at: At
  } & Leased &
    Faulted
}
