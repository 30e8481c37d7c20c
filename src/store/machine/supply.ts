/**
 * A supplier's hosts and machines as one list. A host and the machine that it offers share a name, and each can exist
 * without the other: a host that has just joined is not in the catalog yet, and a provider's own machine has no host.
 */
import { sql } from 'kysely'
import { addMs, type Instant } from '../../base/instant.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { at, type Db } from '../platform/database.ts'
import { awaitsCleaning, readHostRecords, type HostRecord } from '../host/host-admin.ts'
import { isOfSupplier, isPresent, readMachines, type Machine } from './machine.ts'

export interface SuppliedPair {
  readonly id: string
  readonly host: HostRecord | undefined
  readonly machine: Machine | undefined
}

function pairs(supplierId: string | null) {
  return sql`(select host.*, ${awaitsCleaning} as awaits_cleaning from host
      where supplier_id is not distinct from ${supplierId}) h
    full join (select * from machine where ${isOfSupplier(supplierId)} and ${isPresent}) m on m.id = h.id`
}

/** The list is in the order of names. `supplierId`: null for the operator. */
export async function listSupply(
  db: Db,
  supplierId: string | null,
  query: {
    q?: string | undefined
    /** Whether to list departed hosts too. */
    left?: boolean | undefined
    joinedAfter?: Instant | undefined
    after?: string | undefined
    limit: number
  },
): Promise<SuppliedPair[]> {
  const { q, left: includesDeparted = false, joinedAfter, after = '', limit } = query
  const { rows } = await sql<{ id: string }>`
    select coalesce(h.id, m.id) as id from ${pairs(supplierId)}
    where coalesce(h.id, m.id) > ${after}
      and (${includesDeparted} or h.state is distinct from 'left')
      ${q === undefined ? sql`` : sql`and position(lower(${q}) in lower(coalesce(h.id, m.id))) > 0`}
      ${joinedAfter === undefined ? sql`` : sql`and h.created_at >= ${at(joinedAfter)}`}
    order by 1 limit ${limit}`.execute(db)
  const ids = rows.map(({ id }) => id)
  const [hosts, machines] = await Promise.all([readHostRecords(db, ids), readMachines(db, ids)])
  return ids.map((id) => {
    const host = hosts.get(id)
    const machine = machines.get(id)
    return {
      id,
      host: host?.supplier_id === supplierId ? host : undefined,
      machine: machine?.supplier_id === supplierId ? machine : undefined,
    }
  })
}

export interface SupplyTotals {
  /** Departed machines are not counted. */
  readonly machines: number
  readonly onSale: number
  readonly gpus: number
  readonly gpusRented: number
  readonly gpusFaulty: number
  readonly tenants: number
  readonly left: number
}

/** Sums over all machines of the supplier. "On sale" means the same as in view/supply.ts. */
export async function sumSupply(db: Db, supplierId: string | null, now: Instant): Promise<SupplyTotals> {
  const { rows } = await sql<SupplyTotals>`
    select count(*) filter (where here)::integer as machines,
      count(*) filter (where here and on_sale)::integer as "onSale",
      coalesce(sum(gpus) filter (where here), 0)::integer as gpus,
      coalesce(sum(rented) filter (where here), 0)::integer as "gpusRented",
      coalesce(sum(faulty) filter (where here), 0)::integer as "gpusFaulty",
      coalesce(sum(tenants) filter (where here), 0)::integer as tenants,
      count(*) filter (where not here)::integer as "left"
    from (
      select h.state is distinct from 'left' as here,
        coalesce(m.gpus_total, (h.offer ->> 'gpusTotal')::integer) as gpus,
        coalesce(m.gpus_claimed, 0) as rented,
        case when m.id is null then jsonb_array_length(h.offer -> 'gpusSick')
          else (select count(distinct gpu) from unnest(m.gpus_sick || m.gpus_withdrawn) gpu) end as faulty,
        (select count(*) from workload_node n where n.host_id = h.id) as tenants,
        m.status = 'node_ready' and m.listed
          and (h.id is null or h.state = 'ready' and not h.awaits_cleaning and h.fault is null
            and h.seen_at >= ${at(addMs(now, -SILENT_MS))}) as on_sale
      from ${pairs(supplierId)}
    ) one`.execute(db)
  return rows[0] ?? { machines: 0, onSale: 0, gpus: 0, gpusRented: 0, gpusFaulty: 0, tenants: 0, left: 0 }
}
