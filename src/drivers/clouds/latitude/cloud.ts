/**
 * Latitude.sh: bare metal, whole physical machines sold by the hour. A server is recognized by its host name. Its user
 * data and SSH key are separate objects under the tag, and outlive it.
 *
 * A public key can exist only once: if an order's key is already in the project, the order uses that entry. A key that
 * is in the team or in another project can neither be used nor added, so the server gets it from its user data, which
 * has all keys.
 */
import { counted } from '../../../base/counted.ts'
import { formatUsd, parseUsd, type NanoUsd, zeroUsd } from '../../../base/money.ts'
import type { Clock } from '../../../base/instant.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { ProviderCheck } from '../../../contract/provider.ts'
import {
  refused,
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
import { gpuOf } from '../offer.ts'
import { plainKeys } from '../user-data.ts'
import {
  anything,
  createdServer,
  createdSshKey,
  createdUserData,
  errorsOf,
  servers,
  sshKeys,
  userDatas,
  type Plan,
  type Server,
  type SshKey,
  type UserData,
} from './api.ts'
import { hostNameOf, tagOfHost } from './host-name.ts'
import { readList } from './pages.ts'
import { coresOf, gpuOfPlan, offersOf, Plans, priceAt, storageGbOf } from './plans.ts'

const OPERATING_SYSTEM = 'ubuntu24_ml_in_a_box'
const LOGIN_USER = 'ubuntu'

export const latitude: CloudVendor = {
  id: 'latitude',
  title: 'Latitude.sh',
  baseUrl: 'https://api.latitude.sh',
  credentials: [
    { name: 'apiKey', help: 'API key of the Latitude.sh dashboard' },
    { name: 'project', help: 'Slug or id of an on-demand project' },
    { name: 'operatingSystem', help: `Slug of an operating system (default: ${OPERATING_SYSTEM})`, optional: true },
  ],
  // Bare metal has one region in the United States.
  regions: {
    ASH: 'us-central-1',
    CHI: 'us-central-1',
    DAL: 'us-central-1',
    LAX: 'us-central-1',
    MIA: 'us-central-1',
    MIA2: 'us-central-1',
    NYC: 'us-central-1',
    LON: 'uk-southeast-3',
    FRA: 'eu-west-3',
  },
  pace: { everyMs: 500 },
  billing: { from: 'create', incrementMs: 3_600_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 60_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => {
    const accept = 'application/vnd.api+json'
    const headers = { authorization: `Bearer ${credentials.apiKey ?? ''}`, accept }
    return new LatitudeCloud(http({ authorize: async () => headers }), clock, {
      project: credentials.project ?? '',
      operatingSystem: credentials.operatingSystem || OPERATING_SYSTEM,
    })
  },
}

interface Settings {
  readonly project: string
  readonly operatingSystem: string
}

class LatitudeCloud implements Cloud {
  readonly #http: CloudHttp
  readonly #settings: Settings
  readonly #plans: Plans

  constructor(http: CloudHttp, clock: Clock, settings: Settings) {
    this.#http = http
    this.#settings = settings
    this.#plans = new Plans(http, clock)
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const plans = await this.#plans.read(signal)
    const running = await this.#servers(signal)
    const companions = await this.companions('', signal)
    const detail = `lists ${counted(running.length, 'server')} and ${companions.length} SSH keys and user data`
    return [
      { check: 'reachable', result: 'passed', detail: `${counted(plans.length, 'plan')} with GPUs` },
      { check: 'rights', result: 'passed', detail },
      { check: 'limits', result: 'not_tried', detail: 'the vendor does not report quotas' },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    return (await this.#plans.read(signal)).flatMap(offersOf)
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag, offer } = order
    const key = await this.#sshKey(tag, plainKeys(order.spec)[0] ?? '', signal)
    const attributes = {
      project: this.#settings.project,
      plan: offer.type,
      site: offer.region,
      operating_system: this.#settings.operatingSystem,
      hostname: hostNameOf(tag),
      ssh_keys: key === undefined ? [] : [key],
      user_data: await this.#userData(order, signal),
      billing: 'hourly',
    }
    const body = { data: { type: 'servers', attributes } }
    const { data } = await this.#http.write(createdServer, { method: 'POST', path: '/servers', body, signal })
    return { kind: 'created', id: data.id }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    if (id !== '') await this.#delete(`/servers/${encodeURIComponent(id)}`, signal)
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const ours = (await this.#servers(signal)).filter((server) => tagOf(server).startsWith(tagPrefix))
    if (ours.length === 0) return []
    const plans = await this.#plans.known(signal)
    const machines = ours.map((server) => {
      const plan = plans.get(server.attributes.plan?.slug ?? '')
      return { server, plan, price: priceAt(plan, server.attributes.region?.site?.slug ?? '') }
    })
    // The description of the user data has a price that is in no plan any more. If that is gone too, only the vendor's
    // bill shows it.
    const notedPrices = machines.some(({ price }) => price === undefined) ? await this.#notedPrices(signal) : undefined
    return machines.map(({ server, plan, price }) =>
      showServer(server, plan, price ?? notedPrices?.get(tagOf(server)) ?? zeroUsd),
    )
  }

  async companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]> {
    const keys = await this.#sshKeys(signal)
    const scripts = await this.#userDatas(signal)
    const companions = [
      ...keys.map(({ id, attributes }) => ({ id: `ssh_keys/${id}`, tag: attributes.name ?? '', what: 'ssh-key' })),
      ...scripts.map(({ id, attributes }) => ({
        id: `user_data/${id}`,
        tag: noteOf(attributes.description).tag,
        what: 'user-data',
      })),
    ]
    return companions.filter(({ tag }) => tag.startsWith(tagPrefix))
  }

  async removeCompanion({ id }: Pick<CloudCompanion, 'id'>, signal: AbortSignal): Promise<void> {
    const [kind = '', ...idParts] = id.split('/')
    await this.#delete(`/${kind === 'ssh_keys' ? kind : 'user_data'}/${encodeURIComponent(idParts.join('/'))}`, signal)
  }

  async #servers(signal: AbortSignal): Promise<Server[]> {
    return readList(this.#http, servers, { path: '/servers', project: this.#settings.project }, signal)
  }

  async #sshKeys(signal: AbortSignal): Promise<SshKey[]> {
    return readList(this.#http, sshKeys, { path: '/ssh_keys', project: this.#settings.project }, signal)
  }

  async #userDatas(signal: AbortSignal): Promise<UserData[]> {
    return readList(this.#http, userDatas, { path: '/user_data', project: this.#settings.project }, signal)
  }

  /**
   * Returns the id of the key of an earlier attempt, of another order with the same key, or of a new one. undefined:
   * the key is registered outside the project.
   */
  async #sshKey(tag: string, publicKey: string, signal: AbortSignal): Promise<string | undefined> {
    const existing = await this.#findKey(tag, publicKey, signal)
    if (existing !== undefined) return existing
    const attributes = { name: tag, public_key: publicKey, project: this.#settings.project }
    const body = { data: { type: 'ssh_keys', attributes } }
    try {
      return (await this.#http.write(createdSshKey, { method: 'POST', path: '/ssh_keys', body, signal })).data.id
    } catch (error) {
      if (!isRefused(error) || error.status !== 422) throw error
      // Another order may have added it in the meantime.
      return this.#findKey(tag, publicKey, signal)
    }
  }

  async #findKey(tag: string, publicKey: string, signal: AbortSignal): Promise<string | undefined> {
    const keys = await this.#sshKeys(signal)
    const ownKey = keys.find(({ attributes }) => attributes.name === tag)
    const sameKey = keys.find(({ attributes }) => plainKey(attributes.public_key ?? '') === publicKey)
    return (ownKey ?? sameKey)?.id
  }

  async #userData({ tag, offer, userData }: CloudOrder, signal: AbortSignal): Promise<string> {
    const scripts = await this.#userDatas(signal)
    const existing = scripts.find(({ attributes }) => noteOf(attributes.description).tag === tag)
    if (existing !== undefined) return existing.id
    const attributes = {
      description: `${tag} ${formatUsd(offer.costPerHour)}`,
      content: Buffer.from(userData).toString('base64'),
      project: this.#settings.project,
    }
    const body = { data: { type: 'user_data', attributes } }
    return (await this.#http.write(createdUserData, { method: 'POST', path: '/user_data', body, signal })).data.id
  }

  async #notedPrices(signal: AbortSignal): Promise<ReadonlyMap<string, NanoUsd>> {
    const notes = (await this.#userDatas(signal)).map(({ attributes }) => noteOf(attributes.description))
    return new Map(notes.flatMap(({ tag, price }) => (price === undefined ? [] : [[tag, price] as const])))
  }

  async #delete(path: string, signal: AbortSignal): Promise<void> {
    await this.#http.write(anything, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!(error instanceof CloudError) || error.status !== 404) throw error
    })
  }
}

function tagOf({ attributes }: Server): string {
  return tagOfHost(attributes.hostname ?? '')
}

/** Removes the comment of a key. */
function plainKey(key: string): string {
  return key.split(' ').slice(0, 2).join(' ')
}

/** Parses the description of user data: the tag of its order, and the price per hour when it was ordered. */
function noteOf(description: string | null | undefined): { readonly tag: string; readonly price: NanoUsd | undefined } {
  const [tag = '', price = ''] = (description ?? '').split(' ')
  return { tag, price: parseUsd(price) }
}

function showServer(server: Server, plan: Plan | undefined, costPerHour: NanoUsd): CloudMachine {
  const { primary_ipv4: ip } = server.attributes
  const status = server.attributes.status ?? 'unknown'
  const base = { id: server.id, tag: tagOf(server), costPerHour }
  switch (status) {
    case 'on':
      if (ip === undefined || ip === null || ip === '') return { ...base, state: 'starting' }
      return { ...base, state: 'running', ...(plan === undefined ? {} : { data: dataOf(plan, ip) }) }
    case 'deploying':
      return { ...base, state: 'starting', message: 'installing' }
    case 'failed_deployment':
      return { ...base, state: 'failed', failure: 'boot_failed', message: 'Latitude.sh could not install the machine.' }
    // The server was deleted.
    case 'disk_erasing':
      return { ...base, costPerHour: zeroUsd, state: 'stopping' }
    case 'off':
      return { ...base, state: 'unreachable', message: 'The machine is turned off.' }
    default:
      return { ...base, state: 'unreachable', message: `Latitude.sh reports the state ${status}.` }
  }
}

function dataOf(plan: Plan, ip: string): ProviderData {
  const gpu = gpuOfPlan(plan)
  const formFactor = gpuOf(gpu?.text ?? '')?.formFactor
  return {
    providerId: 'latitude',
    resources: {
      cpuModel: plan.specs.cpu.type,
      cpuCount: coresOf(plan),
      gpuCount: gpu?.count ?? 0,
      ramGb: plan.specs.memory.total,
      storageGb: storageGbOf(plan),
    },
    sshNetworking: [{ host: ip, port: 22, user: LOGIN_USER }],
    nodeNetworking: [{ publicIp: ip, privateIp: '' }],
    networkType: 'ethernet',
    ...(formFactor === undefined || formFactor === null ? {} : { gpuFormFactor: formFactor }),
  }
}

/**
 * undefined: the outcome is unknown. A lack of stock is reported in prose, and a malformed request may have the same
 * status, so a request counts as malformed if the vendor says so and does not mention anything that another place may
 * have.
 */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const reasons = errorsOf(error.answer)
  const isInvalid = error.status === 400 || reasons.some(({ code }) => code === 'VALIDATION_ERROR')
  const mayTryElsewhere = reasons.some(({ detail }) =>
    /stock|capacity|available|quota|limit|not found/i.test(detail ?? ''),
  )
  return refused(
    isInvalid && !mayTryElsewhere ? 'rejected_by_provider' : 'no_capacity',
    `Latitude.sh refused the order: ${error.status}.`,
  )
}
