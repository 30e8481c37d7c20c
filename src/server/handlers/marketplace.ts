/** The marketplace over HTTP. */
import { limits, MAX_INT32 } from '../../base/limits.ts'
import { floorDivide, nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import type { ListedHardware } from '../../contract/marketplace.ts'
import type { App } from '../../app/app.ts'
import { terminateInstance } from '../../app/order/marketplace.ts'
import { rentalTag } from '../../app/rental/rental.ts'
import { instanceStatus, isComingUp } from '../../domain/rental.ts'
import { transact } from '../../store/platform/database.ts'
import { listMarketplace } from '../../store/machine/listed-machine.ts'
import { readMachines, type Machine } from '../../store/machine/machine.ts'
import { listRentals, readTerms, type Rental } from '../../store/rental/rental.ts'
import { readWorkloadMessages } from '../../store/host/workload.ts'
import { badCursor, decodeCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { writtenJson } from '../http/json-answer.ts'
import { listedMachine, listingJson, machineHardware, priceOf } from './listed-machine.ts'
import { readRelayedPorts } from './rental-facts.ts'
import { stateFields } from './rental-state.ts'
import { portMappings, sshOf } from './rental-view.ts'

export const marketplaceHandlers = {
  listMachines: async (app, { body, query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const limit = query.limit ?? limits.plainListRows
    const machines = await listMarketplace(app.database.db, body.filters, {
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(limit),
    })
    const page = pageOf(machines, limit, (machine) => machine.id)
    return ok(writtenJson<ResponseOf<Api['listMachines']>>(listingJson(page)))
  },

  listInstances: (app, { actor, query }) => listInstances(app, actor.accountId, query),
  listInstancesByPost: (app, { actor, query }) => listInstances(app, actor.accountId, query),

  listInstanceHistory: async (app, { actor, query }) => {
    const page = await pageOfInstances(app, actor.accountId, 'ended', query)
    if (page === undefined) return badCursor()
    const machines = await readMachines(app.database.db, machineIds(page.rows))
    const terms = await readTerms(
      app.database.db,
      page.rows.map((rental) => rental.id),
    )
    return ok({
      instance_history: page.rows.map((rental) => ({
        instance_name: rental.name,
        started_at: rental.started_at,
        terminated_at: rental.terminated_at,
        price: priceOf(perGpu(terms.get(rental.id)?.costPerHour ?? nanoUsdOf(0n), rental.gpu_count)),
        hardware: hardwareOf(rental, machines.get(rental.spec.nodes[0]?.machineId ?? '')),
        gpu_count: rental.gpu_count,
      })),
      ...(page.nextCursor === null ? {} : { next_cursor: page.nextCursor }),
    })
  },

  terminateInstance: async (app, { actor, body }) => {
    const ended = await transact(app.database, (tx) => terminateInstance(tx, actor, body.id))
    return ended.ok ? ok({ status: 'success' as const }) : ended
  },
} satisfies Partial<Handlers>

interface PageQuery {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

/** undefined: the cursor is not of this list. */
async function pageOfInstances(app: App, accountId: string, phase: 'ended' | 'current', query: PageQuery) {
  const beforeId = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
  if (query.cursor !== undefined && (beforeId === undefined || beforeId > BigInt(MAX_INT32))) return undefined
  const limit = query.limit ?? limits.plainListRows
  const rentals = await listRentals(app.database.db, {
    accountId,
    kind: 'container',
    which: phase,
    ...(beforeId === undefined ? {} : { before: Number.parseInt(beforeId.toString(), 10) }),
    limit: rowsToAsk(limit),
  })
  return pageOf(rentals, limit, (rental) => rental.id)
}

async function listInstances(app: App, accountId: string, query: PageQuery) {
  const { db } = app.database
  const page = await pageOfInstances(app, accountId, 'current', query)
  if (page === undefined) return badCursor()
  const rentals = page.rows
  const machines = await readMachines(db, machineIds(rentals))
  const terms = await readTerms(
    db,
    rentals.map((rental) => rental.id),
  )
  const publicPorts = await readRelayedPorts(app, rentals)
  const messages = await readWorkloadMessages(
    db,
    rentals.filter(({ status }) => isComingUp(status)).map((rental) => rentalTag(app, rental)),
  )
  return ok({
    instances: rentals.map((rental) => {
      const machine = machineOf(rental, machines)
      const term = terms.get(rental.id)
      if (term === undefined) throw new Error(`rental ${rental.id} has no term`)
      return {
        ...instanceRecord(rental, machine, perGpu(term.costPerHour, rental.gpu_count)),
        ...stateFields(app, rental, term),
        portMappings: portMappings(rental, publicPorts.get(rental.id)).map(({ host, publicPort }) => ({
          domain: host,
          protocol: 'tcp',
          port: publicPort,
        })),
        ...statusMessage(rental, messages.get(rentalTag(app, rental))),
      }
    }),
    ...(page.nextCursor === null ? {} : { next_cursor: page.nextCursor }),
  })
}

function instanceRecord(rental: Rental, machine: Machine, price: NanoUsd) {
  return {
    id: rental.name,
    created: rental.created_at,
    start: rental.started_at,
    end: rental.terminated_at,
    sshCommand: sshCommand(rental),
    userMetadata: { ...(rental.label === null ? {} : { label: rental.label }), ...rental.user_metadata },
    instance: {
      ...listedMachine(machine, []),
      hardware: hardwareOf(rental, machine),
      gpus_total: rental.gpu_count,
      gpus_reserved: rental.gpu_count,
      reserved: true,
      pricing: { price: priceOf(price) },
      status: instanceStatus(rental.status, rental.create_asked_at),
      gpu_count: rental.gpu_count,
      owner: rental.account_id,
    },
  }
}

/** Returns an empty text until login is possible. */
function sshCommand(rental: Rental): string {
  const ssh = sshOf(rental)
  return ssh === null ? '' : `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}`
}

function statusMessage(rental: Rental, progress: string | undefined): { status_message?: string } {
  return isComingUp(rental.status) && progress !== undefined ? { status_message: progress } : {}
}

function machineIds(rentals: readonly Rental[]): string[] {
  return [...new Set(rentals.flatMap((rental) => rental.spec.nodes.map((node) => node.machineId)))]
}

function machineOf(rental: Rental, machines: ReadonlyMap<string, Machine>): Machine {
  const machine = machines.get(rental.spec.nodes[0]?.machineId ?? '')
  if (machine === undefined) throw new Error(`rental ${rental.id} has no machine`)
  return machine
}

/** The division is exact, since the total was this price times the count. */
function perGpu(costPerHour: NanoUsd, gpuCount: number): NanoUsd {
  return nanoUsdOf(floorDivide(costPerHour, BigInt(gpuCount)))
}

/** Returns the instance's share of its machine. */
function hardwareOf(rental: Rental, machine: Machine | undefined): ListedHardware {
  if (machine === undefined) return { cpus: [], gpus: [], storage: [], ram: [] }
  const { resources, gpuCount } = rental.spec
  return machineHardware(machine, gpuCount, {
    cores: Math.max(1, Math.floor((machine.hardware.cpuCores * gpuCount) / machine.gpus_total)),
    virtualCores: resources.cpuCount,
    ramGb: resources.ramGb,
    storageGb: resources.storageGb,
  })
}
