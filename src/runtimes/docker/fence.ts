/**
 * Isolates containers from each other, from their host and from its network, whatever rules the container engine has:
 * Docker with `iptables=false` has none, and others may be flushed. Our bridges share a name prefix, so a few nftables
 * rules cover all of them:
 *
 *   from a container to another one              dropped
 *   from a container to the host                 refused
 *   from a container to a private or link-local  refused; clouds keep the secrets of their machines there
 *   from elsewhere into a container              dropped; its ports are reached through the host itself
 *
 * Replies pass, and so do DNS queries to the host's own resolvers at such addresses: containers use the same ones. The
 * rules match the direction of a connection, not whether it is new, so one that began while the rules were missing does
 * not survive. Ports of one bridge are isolated separately (bridge-port.ts).
 *
 * The rules are a table of our own, present while there are containers. Every few seconds it is compared with the
 * expected rules and restored if something changed it. If it cannot be created, no container is started (unless the
 * supplier allows that), and the host reports a fault.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { HostFault } from '../../contract/agent.ts'
import { formatInstant, systemClock, type Instant } from '../../base/instant.ts'
import { acceptDns, isLoopback, PRIVATE_IPV4, PRIVATE_IPV6, resolversOfHost } from '../private-network.ts'
import { NeverStarts } from '../runtime.ts'
import { isolatePorts } from './bridge-port.ts'
import { runIn } from './run-in.ts'

export interface FenceOptions {
  /** The file of the network namespace with the daemon's bridges. undefined: our own. */
  readonly networkNamespace: string | undefined
  /** Starts containers even without the rules. */
  readonly allowUnfenced: boolean
  readonly checkMs?: number | undefined
  readonly onError: (what: string, error: unknown) => void
}

const TABLE = 'berth_containers'
const BRIDGE_PREFIX = 'berth'
/** With the prefix 15 characters, the kernel's limit. */
const BRIDGE_HASH_CHARS = 10
/** The longest time for which changed rules may go unnoticed. */
const CHECK_MS = 10_000
const OURS = `"${BRIDGE_PREFIX}*"`

export function bridgeOf(id: string): string {
  return BRIDGE_PREFIX + createHash('sha256').update(id).digest('hex').slice(0, BRIDGE_HASH_CHARS)
}

/** Atomic, and no error if the table does not exist. */
const noRules = `add table inet ${TABLE}\ndelete table inet ${TABLE}\n`

/** The rules are one transaction, so there is no moment without rules. */
function rulesFor(resolvers: readonly string[]): string {
  return `${noRules}table inet ${TABLE} {
  chain refuse {
    ${acceptDns(resolvers)}
    meta l4proto tcp reject with tcp reset
    reject
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname != ${OURS} accept
    ct direction reply accept
    icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept
    goto refuse
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname ${OURS} oifname ${OURS} drop
    ct direction reply accept
    oifname ${OURS} drop
    iifname != ${OURS} accept
    ip daddr { ${PRIVATE_IPV4} } goto refuse
    ip6 daddr { ${PRIVATE_IPV6} } goto refuse
  }
}
`
}

/** Why containers cannot be isolated on this host. undefined: they can, as far as a dry run shows. */
export async function whyNoFence(): Promise<string | undefined> {
  try {
    await runNft(undefined, ['-c', '-f', '-'], rulesFor([]))
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

export class ContainerFence {
  readonly #options: FenceOptions
  /** undefined: not tried yet. null: isolation works. Otherwise the reason why it does not. */
  #why: string | null | undefined
  /** Whether rules were last added or removed. undefined: an earlier agent may have left some. */
  #lastWanted: boolean | undefined
  /** The current rules, and how the kernel lists them. */
  #applied: { readonly rules: string; readonly listed: string } | undefined
  #checkAt = 0
  #isElsewhere = false
  /** When changed rules were last restored. */
  #restoredAt: Instant | undefined
  #last: Promise<void> = Promise.resolve()

  constructor(options: FenceOptions) {
    this.#options = options
  }

  /** Before a start: applies the rules even if they seem present. Throws if a container would run without them. */
  async raise(): Promise<void> {
    await this.#inTurn(() => this.#apply(true))
    const fault = this.fault()
    if (fault !== undefined)
      throw new NeverStarts('tenants_not_isolated', 'This host cannot isolate its tenants right now.')
  }

  /** Adds the rules while there are containers and removes them after the last. Cheap if nothing changed. */
  maintain(hasNetworks: () => Promise<boolean>): Promise<void> {
    return this.#inTurn(async () => {
      // Bridges of another daemon on this machine use the same table.
      const isNeeded = (await hasNetworks()) || (await this.#bridges()).length > 0
      if (isNeeded !== this.#lastWanted) await this.#apply(isNeeded)
      else if (performance.now() >= this.#checkAt) await this.#check(isNeeded)
    })
  }

  /** After a start: throws if our rules do not cover its bridge, as with a daemon in a virtual machine. */
  async check(id: string): Promise<void> {
    await this.#inTurn(async () => {
      this.#isElsewhere = !(await this.#bridges()).includes(bridgeOf(id))
      await this.#isolate()
    })
    const fault = this.fault()
    if (fault !== undefined)
      throw new NeverStarts('tenants_not_isolated', 'This host cannot isolate its tenants right now.')
  }

  /** Notes for the owner of the host. */
  notes(): readonly string[] {
    const why = this.#whyNot()
    if (why === undefined) return []
    if (why !== null) return [`Containers are NOT isolated from each other and from this host's network: ${why}`]
    const restored =
      this.#restoredAt === undefined
        ? ''
        : ` The rules were changed by something else and restored at ${formatInstant(this.#restoredAt)}.`
    const what = 'Containers are isolated from each other, from this host and from private networks'
    return [`${what} (nftables, table inet ${TABLE}).${restored}`]
  }

  /** Why this host accepts no tenants. */
  fault(): HostFault | undefined {
    const why = this.#whyNot()
    if (this.#options.allowUnfenced || why === undefined || why === null) return undefined
    return { reason: 'tenants_not_isolated', message: `Containers cannot be isolated on this host: ${why}` }
  }

  #whyNot(): string | null | undefined {
    return this.#isElsewhere ? "the container engine's bridges are not in the agent's network namespace." : this.#why
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work).catch((error: unknown) => this.#failed(error))
    return this.#last
  }

  async #check(isWanted: boolean): Promise<void> {
    this.#checkAt = performance.now() + (this.#options.checkMs ?? CHECK_MS)
    if (!isWanted && this.#why === null) return
    if (this.#applied !== undefined && this.#why === null) {
      if ((await this.#list()) === this.#applied.listed && (await currentRules()) === this.#applied.rules)
        return this.#isolate()
      if ((await currentRules()) === this.#applied.rules) {
        this.#restoredAt = systemClock.now()
        this.#options.onError('isolation of tenants', new Error('something changed the nftables rules; restored them'))
      }
    }
    await this.#apply(isWanted)
  }

  async #apply(isWanted: boolean): Promise<void> {
    this.#lastWanted = isWanted
    this.#checkAt = performance.now() + (this.#options.checkMs ?? CHECK_MS)
    const rules = isWanted ? await currentRules() : noRules
    await runNft(this.#options.networkNamespace, ['-f', '-'], rules)
    this.#applied = isWanted ? { rules, listed: (await this.#list()) ?? '' } : undefined
    this.#why = null
    if (isWanted) await this.#isolate()
  }

  /** undefined: no such table. */
  async #list(): Promise<string | undefined> {
    try {
      return await runNft(this.#options.networkNamespace, ['-s', 'list', 'table', 'inet', TABLE], '')
    } catch {
      // Applying the rules shows whether the table was missing or nothing works.
      return undefined
    }
  }

  async #isolate(): Promise<void> {
    await isolatePorts(BRIDGE_PREFIX, this.#options.networkNamespace)
  }

  /** Including bridges that are down. Empty if the file does not exist: this is not Linux. */
  async #bridges(): Promise<string[]> {
    const { networkNamespace } = this.#options
    const file = '/proc/self/net/dev'
    const text =
      networkNamespace === undefined
        ? await readFile(file, 'utf8').catch(() => '')
        : await runIn(networkNamespace, 'cat', [file])
    return [...text.matchAll(/^\s*([^:\s]+):/gm)]
      .map(([, name = '']) => name)
      .filter((name) => name.startsWith(BRIDGE_PREFIX))
  }

  #failed(error: unknown): void {
    const why = messageOf(error)
    if (why !== this.#why) this.#options.onError('isolation of tenants', error)
    this.#why = why
  }
}

async function currentRules(): Promise<string> {
  // The daemon passes the host's resolvers on to containers; it queries a loopback one by itself.
  return rulesFor((await resolversOfHost()).filter((address) => !isLoopback(address)))
}

async function runNft(networkNamespace: string | undefined, args: readonly string[], input: string): Promise<string> {
  if (process.getuid?.() !== 0) throw new Error('the agent is not running as root.')
  return runIn(networkNamespace, 'nft', args, input)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
