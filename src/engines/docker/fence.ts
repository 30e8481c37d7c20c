/**
 * Keeps containers apart from each other, from the host that they run on and from its network, whatever rules the
 * container engine has or has not: Docker with `iptables=false` has none, and others may be flushed. Bridges of ours
 * have a name of their own kind, so a few rules of nftables hold for all of them:
 *
 *   from a container to another one              dropped
 *   from a container to the host                 refused
 *   from a container to a private or link-local  refused; clouds keep the secrets of their machines there
 *   from elsewhere into a container              dropped; its ports are reached through the host itself
 *
 * Answers pass, and so do questions for names where the host's own resolver is at such an address: containers are given
 * the same one. Rules go by who began a connection and not by whether it is new, so one that began while the rules were
 * away does not go on. Two ports on one bridge do not see each other: bridges pass frames on below these rules.
 *
 * The rules are a table of our own; no other is touched. It is there while there are containers. It is compared with
 * what it should be every few seconds, and put back where somebody has changed it. Where it cannot be made, no
 * container is started (unless the supplier wants that), and the host reports a fault.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { HostFault } from '../../contract/agent.ts'
import { formatInstant, systemClock, type Instant } from '../../base/instant.ts'
import { NeverStarts } from '../runtime.ts'
import { isolatePorts } from './bridge-port.ts'
import { runIn } from './run-in.ts'

export interface FenceOptions {
  /** The file of the network namespace that the daemon's bridges are in. Absent: the one that we are in. */
  readonly networkNamespace: string | undefined
  /** Containers are started also where the rules cannot be made. */
  readonly allowUnfenced: boolean
  readonly checkMs?: number | undefined
  readonly onError: (what: string, error: unknown) => void
}

const TABLE = 'berth_containers'
const BRIDGE_PREFIX = 'berth'
/** With the prefix: the kernel takes 15 characters. */
const BRIDGE_HASH_CHARS = 10
/** How long rules that somebody has changed may be missing. */
const CHECK_MS = 10_000
const RESOLVER_FILE = '/etc/resolv.conf'
const MAX_RESOLVERS = 8
const OURS = `"${BRIDGE_PREFIX}*"`

/** Not the internet: private, shared, link-local, loopback, benchmarks, multicast, reserved. */
const PRIVATE_IPV4 = `0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24,
  192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3`
/** The same, and those IPv4 addresses behind a NAT64 gateway. */
const PRIVATE_IPV6 = `::/127, ::ffff:0:0/96, 64:ff9b:1::/48, fc00::/7, fe80::/10, fec0::/10, ff00::/8,
  64:ff9b::/104, 64:ff9b::a00:0/104, 64:ff9b::6440:0/106, 64:ff9b::7f00:0/104, 64:ff9b::a9fe:0/112,
  64:ff9b::ac10:0/108, 64:ff9b::c0a8:0/112, 64:ff9b::c612:0/111`

export function bridgeOf(id: string): string {
  return BRIDGE_PREFIX + createHash('sha256').update(id).digest('hex').slice(0, BRIDGE_HASH_CHARS)
}

/** Done as a whole, and no error where there is no such table. */
const noRules = `add table inet ${TABLE}\ndelete table inet ${TABLE}\n`

/** All in one go, so there is no moment without rules. */
function rulesFor(resolvers: readonly string[]): string {
  const names = resolvers.flatMap((address) => {
    const to = `${isIP(address) === 6 ? 'ip6' : 'ip'} daddr ${address}`
    return [`${to} udp dport 53 accept`, `${to} tcp dport 53 accept`]
  })
  return `${noRules}table inet ${TABLE} {
  chain refuse {
    ${names.join('\n    ')}
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

/** Why containers cannot be kept apart on this host. undefined: as far as can be told before there is one, they can. */
export async function whyNoFence(): Promise<string | undefined> {
  try {
    await runNft(undefined, ['-c', '-f', '-'], rulesFor([]))
    return undefined
  } catch (error) {
    return wordsOf(error)
  }
}

export class ContainerFence {
  readonly #options: FenceOptions
  /** undefined: nothing was tried yet. null: it can be done, and is while there are containers. Else why it cannot. */
  #why: string | null | undefined
  /** Which way was tried last. An earlier agent may have left rules, so at first neither. */
  #asked: boolean | undefined
  /** What was put up, and how the kernel lists it. */
  #up: { readonly rules: string; readonly listed: string } | undefined
  #checkAt = 0
  #isElsewhere = false
  /** When rules that somebody else had changed were last put back. */
  #putBackAt: Instant | undefined
  #last: Promise<void> = Promise.resolve()

  constructor(options: FenceOptions) {
    this.#options = options
  }

  /** Before a start. Puts the rules up even if they seem to be there. Throws where a container would be without them. */
  async raise(): Promise<void> {
    await this.#inTurn(() => this.#apply(true))
    const fault = this.fault()
    if (fault !== undefined) throw new NeverStarts(fault.reason, 'This host cannot keep its tenants apart right now.')
  }

  /** Up where there are containers of ours, away where there are none. Cheap where there is nothing to do. */
  tend(hasNetworks: () => Promise<boolean>): Promise<void> {
    return this.#inTurn(async () => {
      // Those of another daemon on this machine are behind the same table.
      const wanted = (await hasNetworks()) || (await this.#bridges()).length > 0
      if (wanted !== this.#asked) await this.#apply(wanted)
      else if (performance.now() >= this.#checkAt) await this.#check(wanted)
    })
  }

  /** After a start. Throws where its bridge is beyond our rules, such as that of a daemon in a virtual machine. */
  async check(id: string): Promise<void> {
    await this.#inTurn(async () => {
      this.#isElsewhere = !(await this.#bridges()).includes(bridgeOf(id))
      await this.#isolate()
    })
    const fault = this.fault()
    if (fault !== undefined) throw new NeverStarts(fault.reason, 'This host cannot keep its tenants apart right now.')
  }

  /** What the owner of the host should know. */
  notes(): readonly string[] {
    const why = this.#whyNot()
    if (why === undefined) return []
    if (why !== null) return [`Containers are NOT kept apart from each other and from this host's network: ${why}`]
    const putBack =
      this.#putBackAt === undefined
        ? ''
        : ` Something removed the rules; put back at ${formatInstant(this.#putBackAt)}.`
    const what = 'Containers are kept apart from each other, from this host and from private networks'
    return [`${what} (nftables, table inet ${TABLE}).${putBack}`]
  }

  /** Why this host takes no tenants. */
  fault(): HostFault | undefined {
    const why = this.#whyNot()
    if (this.#options.allowUnfenced || why === undefined || why === null) return undefined
    return { reason: 'tenants_not_isolated', message: `Containers cannot be kept apart on this host: ${why}` }
  }

  #whyNot(): string | null | undefined {
    return this.#isElsewhere ? 'the bridges of the container engine are not in the network of the agent.' : this.#why
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work).catch((error: unknown) => this.#failed(error))
    return this.#last
  }

  async #check(isWanted: boolean): Promise<void> {
    this.#checkAt = performance.now() + (this.#options.checkMs ?? CHECK_MS)
    if (!isWanted && this.#why === null) return
    if (this.#up !== undefined && this.#why === null) {
      if ((await this.#list()) === this.#up.listed && (await currentRules()) === this.#up.rules) return this.#isolate()
      if ((await currentRules()) === this.#up.rules) {
        this.#putBackAt = systemClock.now()
        this.#options.onError('isolation of tenants', new Error('something changed the rules of nftables; put back'))
      }
    }
    await this.#apply(isWanted)
  }

  async #apply(isWanted: boolean): Promise<void> {
    this.#asked = isWanted
    this.#checkAt = performance.now() + (this.#options.checkMs ?? CHECK_MS)
    const rules = isWanted ? await currentRules() : noRules
    await runNft(this.#options.networkNamespace, ['-f', '-'], rules)
    this.#up = isWanted ? { rules, listed: (await this.#list()) ?? '' } : undefined
    this.#why = null
    if (isWanted) await this.#isolate()
  }

  /** undefined: there is no such table. */
  async #list(): Promise<string | undefined> {
    try {
      return await runNft(this.#options.networkNamespace, ['-s', 'list', 'table', 'inet', TABLE], '')
    } catch {
      // Put up anew, it shows whether it was missing or whether nothing works.
      return undefined
    }
  }

  async #isolate(): Promise<void> {
    await isolatePorts(BRIDGE_PREFIX, this.#options.networkNamespace)
  }

  /** Also those that carry nothing at the moment. None where there is no such file: this is not Linux. */
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
    const words = wordsOf(error)
    if (words !== this.#why) this.#options.onError('isolation of tenants', error)
    this.#why = words
  }
}

async function currentRules(): Promise<string> {
  return rulesFor(await resolversOfHost())
}

async function runNft(networkNamespace: string | undefined, args: readonly string[], input: string): Promise<string> {
  if (process.getuid?.() !== 0) throw new Error('the agent does not run as root.')
  return runIn(networkNamespace, 'nft', args, input)
}

/** Those of the host, which the daemon hands on to containers; one on the loopback address it asks by itself. */
async function resolversOfHost(): Promise<string[]> {
  const text = await readFile(RESOLVER_FILE, 'utf8').catch(() => '')
  return [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map(([, address = '']) => address)
    .filter((address) => isIP(address) !== 0 && !address.startsWith('127.') && address !== '::1')
    .slice(0, MAX_RESOLVERS)
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
