/**
 * Verda (formerly DataCrunch): virtual machines in Finland and Iceland. A machine is recognized by its description,
 * which is our tag; its SSH key, startup script and boot disk are recognized by their names.
 *
 * Tokens expire after an hour. A create answers with the id alone. A machine cannot be deleted while it is provisioned,
 * so `destroy` throws until then and the reconcilers try again. Deleted disks go to the trash, where they cost money
 * for four days unless they are deleted permanently.
 */
import type { z } from 'zod'
import { SECOND_MS } from '../../../base/instant.ts'
import type { ProviderCheck } from '../../../contract/provider.ts'
import {
  refused,
  unreadable,
  type Cloud,
  type CloudCompanion,
  type CloudMachine,
  type CloudOffer,
  type CloudOrder,
  type CloudOutcome,
  type CloudRefusal,
  type CloudVendor,
} from '../cloud.ts'
import { CloudError, isRefused, type CloudHttp } from '../http.ts'
import { bearerTokens } from '../token.ts'
import { plainKeys } from '../user-data.ts'
import * as api from './api.ts'
import { DISK_GB, DISK_PREFIX, goneStates, orphanedDisks, LOGIN_USER, offerOf, showInstance } from './machine.ts'

const DISK_TYPE = 'NVMe'
const collections = { 'ssh-key': '/v1/ssh-keys', script: '/v1/scripts' } as const

export const verda: CloudVendor = {
  id: 'verda',
  title: 'Verda',
  baseUrl: 'https://api.verda.com',
  credentials: [
    { name: 'clientId', help: 'Client ID of the API credentials (Keys, Cloud API credentials)' },
    { name: 'clientSecret', help: 'Secret of the API credentials' },
  ],
  regions: { 'FIN-01': 'eu-north-2', 'FIN-02': 'eu-north-4', 'FIN-03': 'eu-north-5', 'ICE-01': 'eu-north-6' },
  pace: { everyMs: 250 },
  // Verda bills ten minutes at a time, in advance.
  billing: { from: 'create', incrementMs: 600_000, minimumMs: 600_000 },
  listLagMs: 30_000,
  callTimeoutMs: 60_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => {
    const anonymous = http({ authorize: async () => ({}) })
    const authorize = bearerTokens(clock, async (signal) => {
      const body = {
        grant_type: 'client_credentials',
        client_id: credentials.clientId ?? '',
        client_secret: credentials.clientSecret ?? '',
      }
      const answer = await anonymous.write(api.token, { method: 'POST', path: '/v1/oauth2/token', body, signal })
      return { text: answer.access_token, lifetimeMs: answer.expires_in * SECOND_MS }
    })
    return new VerdaCloud(http({ authorize }))
  },
}

class VerdaCloud implements Cloud {
  readonly #http: CloudHttp

  constructor(http: CloudHttp) {
    this.#http = http
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const { amount, currency } = await this.#http.read(api.balance, { path: '/v1/balance', signal })
    const running = await this.#instances(signal)
    const companions = await this.companions('', signal)
    return [
      { check: 'reachable', result: 'passed', detail: `balance of ${amount} ${currency.toUpperCase()}` },
      {
        check: 'rights',
        result: 'passed',
        detail: `lists ${running.length} instances, ${companions.length} keys and scripts`,
      },
      {
        check: 'prices',
        result: isUsd(currency) ? 'passed' : 'failed',
        detail: isUsd(currency) ? 'billed in USD' : `billed in ${currency.toUpperCase()}, and Berth buys in USD only`,
      },
      { check: 'limits', result: 'not_tried', detail: 'the vendor does not report quotas' },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    const query = { currency: 'usd' }
    const path = '/v1/instance-types'
    const types = this.#http.readable(
      api.instanceType,
      await this.#http.read(api.entries, { path, query, signal }),
      path,
    )
    const places = await this.#http.read(api.availabilities, { path: '/v1/instance-availability', signal })
    const disks = await this.#http.read(api.volumeTypes, { path: '/v1/volume-types', signal })
    const disk = disks.find(({ type, price }) => type === DISK_TYPE && isUsd(price.currency))
    if (disk === undefined) throw new Error(`Verda lists no price of ${DISK_TYPE} disks in USD.`)
    const sold = types.filter(({ gpu, currency }) => gpu.number_of_gpus > 0 && isUsd(currency))
    return places.flatMap(({ location_code: region, availabilities }) =>
      sold
        .filter(({ instance_type: type }) => availabilities.includes(type))
        .map((type) => offerOf(type, region, disk.price.price_per_month_per_gb)),
    )
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag, startupScript } = order
    const { type, region } = order.offer
    if (startupScript === undefined) return refused('no_capacity', 'Verda runs scripts, but no cloud-init.')
    const image = await this.#image(type, signal)
    if (image === undefined) return refused('no_capacity', `Verda has no Ubuntu image with CUDA for ${type}.`)
    const keyId = await this.#ensure('ssh-key', tag, { key: plainKeys(order.spec)[0] ?? '' }, signal)
    const scriptId = await this.#ensure('script', tag, { script: startupScript }, signal)
    const body = {
      instance_type: type,
      image,
      hostname: tag,
      description: tag,
      location_code: region,
      ssh_key_ids: [keyId],
      startup_script_id: scriptId,
      os_volume: { name: tag, size: DISK_GB },
      contract: 'PAY_AS_YOU_GO',
      pricing: 'FIXED_PRICE',
    }
    const id = await this.#http.write(api.bareId, { method: 'POST', path: '/v1/instances', body, signal })
    return { kind: 'created', id }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    try {
      if (id.startsWith(DISK_PREFIX)) {
        const body = { id: id.slice(DISK_PREFIX.length), action: 'delete', is_permanent: true }
        await this.#http.write(api.anything, { method: 'PUT', path: '/v1/volumes', body, signal })
        return
      }
      await this.#deleteInstance(id, signal)
    } catch (error) {
      if (!isMissing(error)) throw error
    }
  }

  /**
   * Deletes the instance and its disk permanently. A disk that is not named goes to the trash, and `list` shows it
   * there.
   */
  async #deleteInstance(id: string, signal: AbortSignal): Promise<void> {
    const path = `/v1/instances/${encodeURIComponent(id)}`
    const { status, os_volume_id: disk } = await this.#http.read(api.instance, { path, signal })
    if (status === 'deleting' || goneStates.includes(status)) return
    const results = await this.#http.write(api.actionResults, {
      method: 'PUT',
      path: '/v1/instances',
      body: {
        id: [id],
        action: 'delete',
        ...(disk === undefined || disk === null ? {} : { volume_ids: [disk], delete_permanently: true }),
      },
      signal,
    })
    const failed = results?.find(({ error }) => (error ?? '') !== '')
    if (failed !== undefined) throw new Error(`Verda refused to delete the machine: ${failed.error ?? ''}`)
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const instances = await this.#instances(signal)
    const disks = await this.#http.read(api.volumes, { path: '/v1/volumes', signal })
    const trash = await this.#http.read(api.volumes, { path: '/v1/volumes/trash', signal })
    const machines = instances.flatMap((one) => {
      if (!('status' in one)) return [unreadable(verda.title, { id: one.id, tag: one.description ?? '' })]
      if (goneStates.includes(one.status)) return []
      const ownDisks = disks.filter((disk) => disk.instance_id === one.id || disk.id === one.os_volume_id)
      return [showInstance(one, ownDisks)]
    })
    return [...machines, ...orphanedDisks(disks, trash, machines)].filter(({ tag }) => tag.startsWith(tagPrefix))
  }

  async companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]> {
    const companions: CloudCompanion[] = []
    for (const [what, path] of Object.entries(collections)) {
      const things = await this.#http.read(api.namedThings, { path, signal })
      companions.push(...things.map(({ id, name }) => ({ id, tag: name, what })))
    }
    return companions.filter(({ tag }) => tag.startsWith(tagPrefix))
  }

  async removeCompanion({ id, what }: CloudCompanion, signal: AbortSignal): Promise<void> {
    const path = `${what === 'script' ? collections.script : collections['ssh-key']}/${encodeURIComponent(id)}`
    await this.#http.write(api.anything, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
  }

  async #instances(signal: AbortSignal): Promise<z.output<typeof api.instances>> {
    return this.#http.read(api.instances, { path: '/v1/instances', signal })
  }

  /** Returns the newest Ubuntu image with CUDA for the type, with Docker if there is one. */
  async #image(type: string, signal: AbortSignal): Promise<string | undefined> {
    const query = { instance_type: type }
    const images = await this.#http.read(api.images, { path: '/v1/images', query, signal })
    const names = images.map(({ image_type: name }) => name).filter((name) => /^ubuntu-.*cuda/.test(name))
    const withDocker = names.filter((name) => name.includes('docker'))
    const usable = withDocker.length === 0 ? names : withDocker
    return usable.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)
  }

  /** Returns the id of the object of an earlier attempt, or of a new one. */
  async #ensure(
    what: keyof typeof collections,
    tag: string,
    content: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<string> {
    const path = collections[what]
    const existing = (await this.#http.read(api.namedThings, { path, signal })).find(({ name }) => name === tag)
    if (existing !== undefined) return existing.id
    return this.#http.write(api.bareId, { method: 'POST', path, body: { name: tag, ...content }, signal })
  }
}

function isUsd(currency: string | null | undefined): boolean {
  return (currency ?? 'usd').toLowerCase() === 'usd'
}

/** Tells whether a removal failed because the object is already gone. */
function isMissing(error: unknown): boolean {
  if (!(error instanceof CloudError)) return false
  const { message } = api.failureOf(error.answer)
  return error.status === 404 || /^invalid (?:instance|volume) id|discontinued instance/i.test(message)
}

/** undefined: the outcome is unknown. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const { message } = api.failureOf(error.answer)
  // No money, no rights, no such type: another place may have them.
  const mayTryElsewhere =
    [401, 402, 403, 404].includes(error.status ?? 0) || /capacity|resources|available/i.test(message)
  return refused(mayTryElsewhere ? 'no_capacity' : 'rejected_by_provider', 'Verda refused the order.')
}
