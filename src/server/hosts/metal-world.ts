/** Bare-metal hosts for their keeper (drivers/metal/keep.ts): read from the database, with their secrets unsealed. */
import { z } from 'zod'
import type { App } from '../../app/app.ts'
import { resolveSecrets } from '../../app/account/secret.ts'
import type { Desired, HostReport } from '../../contract/agent.ts'
import { metalAccess, metalDeclared, type MetalAccess, type MetalDeclared } from '../../runtimes/ssh/access.ts'
import type { MetalHost, MetalWorld } from '../../drivers/metal/world.ts'
import { transact } from '../../store/platform/database.ts'
import {
  dropNode,
  findHost,
  listMetalHosts,
  listTenanted,
  readDesired,
  saveReport,
  setHostState,
  type HostRow,
} from '../../store/host/host.ts'
import { admitHost, replaceAccess, updateMetalHost } from '../../store/host/host-admin.ts'
import { endTurn, prolongTurn, takeTurn } from '../../store/platform/lease.ts'

const MAX_HOSTS = 10_000

/** The sealed content of `host.access`. */
const sealed = z.object({ access: metalAccess, declared: metalDeclared })

export function sealMetal(app: Pick<App, 'vault'>, access: MetalAccess, declared: MetalDeclared): string {
  return app.vault.seal(JSON.stringify({ access, declared }))
}

/** Updates a known host. A learned host key stays unless a new one is given. */
export async function changeMetalHost(
  app: Pick<App, 'database' | 'vault'>,
  host: HostRow,
  entry: Pick<MetalHost, 'access' | 'declared' | 'address' | 'offer'>,
): Promise<void> {
  const previous = host.access === null ? undefined : sealed.parse(JSON.parse(app.vault.open(host.access)))
  const hostKey = entry.access.hostKey ?? previous?.access.hostKey
  const access: MetalAccess = { ...entry.access, ...(hostKey === undefined ? {} : { hostKey }) }
  await updateMetalHost(app.database.db, {
    id: host.id,
    offer: entry.offer,
    access: sealMetal(app, access, entry.declared),
    address: entry.address,
  })
}

export function metalWorld(app: Pick<App, 'database' | 'clock' | 'vault' | 'installationId'>): MetalWorld {
  const { database, clock, vault } = app
  const { db } = database
  return {
    async listMetalHosts() {
      const rows = await listMetalHosts(database.steady, 'private-cloud', MAX_HOSTS)
      const tenantedIds = await listTenanted(
        db,
        rows.map(({ id }) => id),
      )
      return rows.flatMap((row): MetalHost[] => {
        if (row.access === null || row.address === null) return []
        const { access, declared } = sealed.parse(JSON.parse(vault.open(row.access)))
        const { id, state_reason: reason, generation, address, offer } = row
        // A tenant stays on a host that was quarantined: the host is treated as draining.
        const state = row.state === 'quarantined' && tenantedIds.has(id) ? 'draining' : row.state
        return [
          {
            id,
            state,
            reason,
            generation: Number.parseInt(generation.toString(), 10),
            access,
            declared,
            address,
            offer,
          },
        ]
      })
    },
    takeHost: (id, leaseMs) => takeTurn(db, `metal:${id}`, { now: clock.now(), leaseMs }),
    renewHost: (id, token, leaseMs) => prolongTurn(db, `metal:${id}`, token, { now: clock.now(), leaseMs }),
    giveHost: (id, token) => endTurn(db, `metal:${id}`, token, clock.now()),
    async readDesired(id): Promise<Desired> {
      const desired = await readDesired(db, id)
      if (desired === undefined) throw new Error(`there is no host ${id}`)
      return resolveSecrets(app, desired)
    },
    async saveReport(id, report: HostReport) {
      await transact(database, (tx) => saveReport(tx, id, null, report, clock.now()))
    },
    async quarantine(id, reason, workloadId) {
      await transact(database, async (tx) => {
        await setHostState(tx, id, 'quarantined', reason)
        if (workloadId !== null) await dropNode(tx, id, workloadId)
        tx.wake.add('observe')
      })
    },
    async admit(id) {
      await transact(database, (tx) => admitHost(tx, id))
    },
    async learnHostKey(id, fingerprint) {
      const row = await findHost(db, id)
      if (row?.access === undefined || row.access === null) return
      const { access, declared } = sealed.parse(JSON.parse(vault.open(row.access)))
      await replaceAccess(db, id, row.access, sealMetal(app, { ...access, hostKey: fingerprint }, declared))
    },
  }
}
