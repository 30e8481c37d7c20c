/**
 * Lambda: virtual machines with whole GPUs, sold by the minute. Each launch creates one machine, recognized by its
 * name, which is our tag. A launch takes exactly one SSH key, by name, so each order registers one under its tag; the
 * other keys of the customer are in the user data. A registered key can be removed once the machine runs. An order with
 * ports also has a firewall ruleset (firewall.ts).
 */
import type { z } from 'zod'
import { counted } from '../../../base/counted.ts'
import { zeroUsd } from '../../../base/money.ts'
import { fromCents } from '../../../base/vendor-price.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
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
import { gpuOf } from '../offer.ts'

import { plainKeys } from '../user-data.ts'
import {
  addedSshKey,
  anything,
  codeOf,
  instances,
  instanceTypes,
  launched,
  offeredType,
  oneInstance,
  sshKeys,
  terminated,
  type Instance,
  type InstanceType,
} from './api.ts'
import { FirewallRulesets, RULESET } from './firewall.ts'

const NOT_FOUND = 'global/object-does-not-exist'
/** Rulesets have no effect in these regions. */
const regionsWithoutFirewall = ['us-south-1']
/** Errors of a launch after which another place may succeed. */
const noCapacityCodes = ['instance-operations/launch/insufficient-capacity', 'global/quota-exceeded', NOT_FOUND]

export const lambda: CloudVendor = {
  id: 'lambda',
  title: 'Lambda',
  baseUrl: 'https://cloud.lambda.ai',
  credentials: [{ name: 'apiKey', help: 'API key of the Lambda Cloud dashboard' }],
  regions: {
    'us-west-1': 'us-central-1',
    'us-west-2': 'us-central-1',
    'us-west-3': 'us-central-1',
    'us-midwest-1': 'us-central-2',
    'us-south-1': 'us-central-3',
    'us-south-2': 'us-central-3',
    'us-south-3': 'us-central-3',
    'us-east-1': 'us-east-1',
    'us-east-2': 'us-east-2',
    'us-east-3': 'us-east-2',
    'europe-central-1': 'eu-west-1',
    'asia-northeast-1': 'jp-east-1',
    'asia-northeast-2': 'jp-east-1',
    'me-west-1': 'me-central-1',
  },
  pace: { everyMs: 1_000, routes: { launch: 12_000 } },
  billing: { from: 'running', incrementMs: 60_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 60_000,
  loginUser: 'ubuntu',
  refusalOf,
  open: ({ credentials, http }) => {
    const headers = { authorization: `Bearer ${credentials.apiKey ?? ''}` }
    return new LambdaCloud(http({ authorize: async () => headers }))
  },
}

class LambdaCloud implements Cloud {
  readonly #http: CloudHttp
  readonly #firewall: FirewallRulesets

  constructor(http: CloudHttp) {
    this.#http = http
    this.#firewall = new FirewallRulesets(http)
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const types = await this.#types(signal)
    const running = await this.#instances(signal)
    const keys = (await this.#http.read(sshKeys, { path: '/api/v1/ssh-keys', signal })).data
    return [
      { check: 'reachable', result: 'passed', detail: counted(types.length, 'instance type') },
      {
        check: 'rights',
        result: 'passed',
        detail: `lists ${counted(running.length, 'instance')} and ${counted(keys.length, 'SSH key')}`,
      },
      { check: 'limits', result: 'not_tried', detail: 'the vendor does not report quotas' },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    const types = await this.#types(signal)
    return types.flatMap(({ instance_type: type, regions_with_capacity_available: regions }) =>
      regions.map(({ name }) => offerOf(type, name)),
    )
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag } = order
    const { type, region } = order.offer
    await this.#registerKey(tag, plainKeys(order.spec)[0] ?? '', signal)
    const ruleset = await this.#openPorts(order, signal)
    if ('kind' in ruleset) return ruleset
    const { data } = await this.#http.write(launched, {
      method: 'POST',
      path: '/api/v1/instance-operations/launch',
      route: 'launch',
      body: {
        region_name: region,
        instance_type_name: type,
        ssh_key_names: [tag],
        name: tag,
        user_data: order.userData,
        ...ruleset,
      },
      signal,
    })
    return { kind: 'created', id: data.instance_ids[0] ?? '' }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#http.write(terminated, {
        method: 'POST',
        path: '/api/v1/instance-operations/terminate',
        body: { instance_ids: [id] },
        signal,
      })
    } catch (error) {
      if (!(error instanceof CloudError) || error.status === undefined) throw error
      // An instance that is already being terminated gives another error.
      if (codeOf(error.answer) !== NOT_FOUND && !(await this.#isEnding(id, signal))) throw error
    }
  }

  async #isEnding(id: string, signal: AbortSignal): Promise<boolean> {
    const path = `/api/v1/instances/${encodeURIComponent(id)}`
    const state = await this.#http.read(oneInstance, { path, signal }).catch((error: unknown) => {
      if (error instanceof CloudError && error.status === 404) return undefined
      throw error
    })
    return state === undefined || state.data.status === 'terminating' || state.data.status === 'terminated'
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const ours = (await this.#instances(signal)).filter(({ name }) => name?.startsWith(tagPrefix) === true)
    return ours.flatMap((one) => {
      if (!('status' in one)) return [unreadable(lambda.title, { id: one.id, tag: one.name ?? '' })]
      return one.status === 'terminated' ? [] : [showInstance(one)]
    })
  }

  async companions(tagPrefix: string, signal: AbortSignal) {
    return [...(await this.#keys(tagPrefix, signal)), ...(await this.#firewall.list(tagPrefix, signal))]
  }

  async removeCompanion({ id, what }: CloudCompanion, signal: AbortSignal): Promise<void> {
    if (what === RULESET) return this.#firewall.remove(id, signal)
    const path = `/api/v1/ssh-keys/${encodeURIComponent(id)}`
    await this.#http.write(anything, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!(error instanceof CloudError) || error.status !== 404) throw error
    })
  }

  async #types(signal: AbortSignal): Promise<Array<z.output<typeof offeredType>>> {
    const path = '/api/v1/instance-types'
    const { data } = await this.#http.read(instanceTypes, { path, signal })
    return this.#http.readable(offeredType, Object.values(data), path)
  }

  async #instances(signal: AbortSignal): Promise<z.output<typeof instances>['data']> {
    return (await this.#http.read(instances, { path: '/api/v1/instances', signal })).data
  }

  async #keys(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]> {
    const { data } = await this.#http.read(sshKeys, { path: '/api/v1/ssh-keys', signal })
    const ours = data.filter(({ name }) => name.startsWith(tagPrefix))
    return ours.map(({ id, name }) => ({ id, tag: name, what: 'ssh-key' }))
  }

  /** Returns the launch field for the ports, or a refusal, as in regions without a firewall. */
  async #openPorts({ tag, offer: { region }, spec }: CloudOrder, signal: AbortSignal) {
    if (spec.ports.length === 0) return {}
    const message = `Lambda does not open ports in ${region}.`
    if (regionsWithoutFirewall.includes(region)) return refused('no_capacity', message)
    try {
      return { firewall_rulesets: [{ id: await this.#firewall.open(tag, region, spec.ports, signal) }] }
    } catch (error) {
      if (!isRefused(error)) throw error
      return refused('no_capacity', message, error.message)
    }
  }

  /** Registers the order's key unless an earlier attempt did. */
  async #registerKey(tag: string, publicKey: string, signal: AbortSignal): Promise<void> {
    if ((await this.#keys(tag, signal)).some((key) => key.tag === tag)) return
    const body = { name: tag, public_key: publicKey }
    await this.#http.write(addedSshKey, { method: 'POST', path: '/api/v1/ssh-keys', body, signal })
  }
}

function offerOf(type: InstanceType, region: string): CloudOffer {
  const { vcpus, memory_gib, storage_gib, gpus } = type.specs
  return {
    type: type.name,
    region,
    kind: 'virtual-machine',
    gpu: type.gpu_description,
    gpus,
    networkType: 'ethernet',
    available: null,
    costPerHour: fromCents(type.price_cents_per_hour),
    cpus: vcpus,
    ramGb: memory_gib,
    storageGb: storage_gib,
  }
}

const freeStates: readonly string[] = ['booting', 'terminating', 'terminated', 'preempted']

function showInstance(instance: Instance): CloudMachine {
  const { id, name, status, instance_type: type } = instance
  // An instance is billed from `active` until its termination is requested. Unknown states count as billed.
  const isBilled = !freeStates.includes(status)
  const base = { id, tag: name ?? '', costPerHour: isBilled ? fromCents(type.price_cents_per_hour) : zeroUsd }
  const hasAddress = instance.ip !== undefined && instance.ip !== null
  switch (status) {
    case 'active':
      return hasAddress ? { ...base, state: 'running', data: dataOf(instance) } : { ...base, state: 'starting' }
    case 'booting':
      return { ...base, state: 'starting', message: 'booting' }
    case 'terminating':
      return { ...base, state: 'stopping' }
    case 'preempted':
      return { ...base, state: 'failed', failure: 'machine_lost', message: 'Lambda took the machine back.' }
    case 'unhealthy':
      // An instance with an address has run before and may recover; one without never ran.
      return hasAddress
        ? { ...base, state: 'unreachable', message: 'Lambda reports the machine as unhealthy.' }
        : { ...base, state: 'failed', failure: 'boot_failed', message: 'Lambda reports the machine as unhealthy.' }
    default:
      return { ...base, state: 'unreachable', message: `Lambda reports the state ${status}.` }
  }
}

function dataOf({ ip, private_ip, instance_type: type }: Instance): ProviderData {
  const { vcpus, memory_gib, storage_gib, gpus } = type.specs
  const formFactor = gpuOf(type.gpu_description)?.formFactor
  return {
    providerId: 'lambda',
    resources: { cpuModel: 'x86-64', vcpuCount: vcpus, gpuCount: gpus, ramGb: memory_gib, storageGb: storage_gib },
    sshNetworking: [{ host: ip ?? '', port: 22, user: lambda.loginUser }],
    nodeNetworking: [{ publicIp: ip ?? '', privateIp: private_ip ?? '' }],
    networkType: 'ethernet',
    ...(formFactor === undefined || formFactor === null ? {} : { gpuFormFactor: formFactor }),
  }
}

/** undefined: the outcome is unknown. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const code = codeOf(error.answer) ?? ''
  const isAccountFault = error.status === 401 || error.status === 403
  // `provider/…`: the underlying cloud has no quota or no room.
  const mayTryElsewhere = isAccountFault || noCapacityCodes.includes(code) || code.startsWith('provider/')
  return refused(mayTryElsewhere ? 'no_capacity' : 'rejected_by_provider', 'Lambda refused the order.')
}
