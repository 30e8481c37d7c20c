/** Marketplace instances in tests: renting them, their expected bill, and checks for leftovers. */
import net from 'node:net'
import { formatInstant, parseInstant, type Instant } from '../../src/base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../../src/base/money.ts'
import { chargedFor, dueFor, succeed } from './journey.ts'
import type { ContainerHost, Customer, MachineServer } from '../lab/machines.ts'
import type { LabImage } from '../lab/registry-lab.ts'
import { waitFor } from './wait.ts'

export interface Instance {
  readonly id: string
  readonly start: string | null
  readonly sshCommand: string
  readonly status_message?: string
  readonly portMappings: ReadonlyArray<{ domain: string; protocol: string; port: number }>
  readonly instance: { readonly status: string; readonly id: string }
}

export interface InstanceEvent {
  readonly type: string
  readonly at: string
  readonly data: Readonly<Record<string, unknown>>
}

export const instancesPath = '/v1/marketplace/instances'
/** Per GPU-hour, for the hosts of a lab. */
export const LAB_PRICE = usd('0.40')

export async function rentInstance(
  by: Customer,
  host: Pick<ContainerHost, 'id'>,
  image: (LabImage & { port?: number }) | null = null,
  options: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const body = { cluster_name: 'lab', node_name: host.id, gpu_count: 1, image, ...options }
  return (await succeed(by.call, 'POST', `${instancesPath}/create`, body)).instance_id
}

/** undefined: it has ended. */
export async function findInstance(by: Customer, name: string): Promise<Instance | undefined> {
  const { instances } = await succeed(by.call, 'GET', instancesPath)
  return (instances as Instance[]).find((one) => one.id === name)
}

export function untilStatus(by: Customer, name: string, status: string, timeoutMs?: number): Promise<Instance> {
  let last: Instance | undefined
  return waitFor(
    () => `${name} to be ${status}; it is ${JSON.stringify(last)}`,
    async () => {
      last = await findInstance(by, name)
      if (last?.instance.status === 'failed' && status !== 'failed') throw new Error(await whyFailed(by, name))
      return last?.instance.status === status && last
    },
    timeoutMs,
  )
}

async function whyFailed(by: Customer, name: string): Promise<string> {
  const { events } = await succeed(by.call, 'GET', '/v2/events?limit=50')
  const own = (events as Array<{ type: string; data: { name?: string } }>).filter(({ data }) => data.name === name)
  return `${name} has failed: ${JSON.stringify(own.map(({ type, data }) => ({ type, ...data })))}`
}

export async function rentOnline(
  by: Customer,
  host: Pick<ContainerHost, 'id'>,
  image?: LabImage & { port?: number },
): Promise<Instance> {
  return untilStatus(by, await rentInstance(by, host, image), 'online')
}

export async function terminate(by: Customer, name: string): Promise<void> {
  await succeed(by.call, 'POST', `${instancesPath}/terminate`, { id: name })
}

/** Until nothing of it is left at the engine. */
export async function untilGone(by: Customer, name: string): Promise<void> {
  await waitFor(`${name} to be gone`, async () => (await rentalStatusOf(by, name)) === 'Terminated')
}

/** From v2, because the v1 list drops an instance as soon as its end is accepted. */
export async function rentalStatusOf(by: Customer, name: string): Promise<string> {
  return (await succeed(by.call, 'GET', `/v2/rentals/${name}`)).state
}

/** Its rental number, as used by events and bills. */
export async function rentalIdOf(by: Customer, { id }: Instance): Promise<number> {
  return (await succeed(by.call, 'GET', `/v2/rentals/${id}`)).id
}

/** All of its events, oldest first. */
export async function eventsOf(by: Customer, instance: Instance): Promise<InstanceEvent[]> {
  const rentalId = await rentalIdOf(by, instance)
  const { events } = await succeed(by.call, 'GET', `/v2/events?limit=1000&subject=rental:${rentalId}`)
  return (events as InstanceEvent[]).toReversed()
}

/** The data of its last event of this type. */
export async function eventData(by: Customer, instance: Instance, type: string): Promise<InstanceEvent['data']> {
  const found = (await eventsOf(by, instance)).findLast((event) => event.type === type)
  if (found === undefined) throw new Error(`${instance.id} has no event ${type}`)
  return found.data
}

/** The documented cost of a period, computed independently of our code. */
export function costOf(startedAt: Instant, endedAt: Instant): NanoUsd {
  return nanoUsdOf((LAB_PRICE * BigInt(endedAt - startedAt)) / 3_600_000n)
}

/** What an instance that its customer has ended must cost. */
export async function dueForInstance(by: Customer, instance: Instance): Promise<NanoUsd> {
  return dueFor(
    by.call,
    { id: await rentalIdOf(by, instance), startedAt: formatInstant(instantOf(instance.start)) },
    LAB_PRICE,
  )
}

export async function charged(by: Customer, instance: Instance): Promise<NanoUsd> {
  return chargedFor(by.call, { rentalId: await rentalIdOf(by, instance) })
}

export function instantOf(text: unknown): Instant {
  const instant = typeof text === 'string' ? parseInstant(text) : undefined
  if (instant === undefined) throw new Error(`${String(text)} is no time`)
  return instant
}

export interface Listing {
  readonly id: string
  readonly status: string
  readonly gpus_total: number
  readonly gpus_reserved: number
}

/** How a host is listed on the marketplace. undefined: it is not. */
export async function listingOf(
  server: MachineServer,
  { id }: Pick<ContainerHost, 'id'>,
): Promise<Listing | undefined> {
  const { instances } = await succeed(server.anonymous, 'POST', '/v1/marketplace', { filters: {} })
  return (instances as Listing[]).find((one) => one.id === id)
}

export function sshPortOf({ sshCommand }: Instance): number {
  return Number(sshCommand.split(' ').at(-1))
}

export function isPortOpen(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port })
    const answer = (isOpen: boolean): void => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('connect', () => answer(true)).once('error', () => answer(false))
  })
}
