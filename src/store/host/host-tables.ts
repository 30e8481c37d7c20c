/** The tables of schema/0010_hosts.sql and schema/0033_servers.sql as types; see store/platform/tables.ts. */
import type { ColumnType } from 'kysely'
import type { HostFault, HostMetrics, HostOffer, Observation, Workload } from '../../contract/agent.ts'
import type { HostAddress, HostState } from '../../domain/host.ts'
import type { EngineSpec } from '../../domain/rental.ts'
import type { At, AtOrNull, Counted, Json, JsonOr, OrNull } from '../platform/column.ts'

export type WorkloadWant = 'run' | 'stopped' | 'gone'

export interface HostTables {
  host: {
    id: string
    driver: 'host' | 'private-cloud'
    supplier_id: OrNull<string>
    state: ColumnType<HostState, HostState | undefined, HostState>
    state_reason: OrNull<string>
    public_key: OrNull<string>
    access: OrNull<string>
    address: ColumnType<HostAddress | null, string | null | undefined, string | null>
    offer: Json<HostOffer>
    notes: JsonOr<string[]>
    fault: ColumnType<HostFault | null, string | null | undefined, string | null>
    generation: ColumnType<bigint, bigint | undefined, bigint>
    session: OrNull<string>
    server_id: OrNull<string>
    agent_version: OrNull<string>
    seen_at: AtOrNull
    metrics: ColumnType<HostMetrics | null, string | null | undefined, string | null>
    metrics_at: AtOrNull
    created_at: At
  }
  server: {
    id: string
    address: string
    seen_at: At
  }
  join_token: {
    id: string
    account_id: string
    hash: Buffer
    supplier_id: OrNull<string>
    uses_left: number
    created_at: At
    expires_at: At
  }
  workload: {
    id: string
    driver: 'host' | 'private-cloud'
    tag: string
    spec: ColumnType<EngineSpec | null, string | null, string | null>
    base_image: ColumnType<Workload['baseImage'], string | null | undefined, string | null>
    want: ColumnType<WorkloadWant, WorkloadWant | undefined, WorkloadWant>
    reboots: Counted
    created_at: At
  }
  workload_node: {
    workload_id: string
    host_id: string
    node_index: number
    gpu_indexes: number[]
    generation: bigint
    state: OrNull<Observation['state']>
    failure: OrNull<string>
    message: OrNull<string>
    ssh_user: OrNull<string>
    incarnation: OrNull<string>
    disks: ColumnType<string[], string[] | undefined, string[]>
    started: ColumnType<boolean, boolean | undefined, boolean>
  }
  /** Of a workload on a host, or of a rental that has none. */
  relay_port: { port: number; workload_id: OrNull<string>; rental_id: OrNull<number>; target: number }
  host_volume: {
    id: string
    driver: 'host' | 'private-cloud'
    tag: string
    host_id: OrNull<string>
    label: string
    size_gb: number
    vip: string
    want: ColumnType<'there' | 'gone', 'there' | 'gone' | undefined, 'there' | 'gone'>
    present: ColumnType<boolean, boolean | undefined, boolean>
    made: ColumnType<boolean, boolean | undefined, boolean>
    reserved: ColumnType<boolean, boolean | undefined, boolean>
    failure: OrNull<string>
    generation: OrNull<bigint>
    created_at: At
    found_gb: OrNull<number>
    used_gb: OrNull<number>
    copy_of: OrNull<string>
  }
  workload_disk: {
    workload_id: string
    volume_id: string
    path: OrNull<string>
    read_only: ColumnType<boolean, boolean | undefined, boolean>
  }
  base_image: {
    name: string
    arch: 'x64' | 'arm64'
    source: string
    sha256: string
    login_user: string
    is_default: ColumnType<boolean, boolean | undefined, boolean>
    created_at: At
  }
}
