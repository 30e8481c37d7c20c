/**
 * Keeps containers off the host that they run on: what listens on any of its addresses trusts whoever comes from
 * inside, and at link-local ones clouds keep the secrets of their machines. Bridges of ours have a name of their own
 * kind, so a few rules of nftables hold for all of them: no connection begins there that ends on the host or on such an
 * address. Answers pass, and with them ports that are published and SSH. So do questions for names, where the host's
 * own resolver is at such an address: containers are given the same one.
 *
 * The rules are a table of our own; no other is touched. It is there while there are containers, and is put back when
 * somebody has flushed it. Where we are not root or there is no nftables, containers run without, and the notes say so.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { runProgram } from '../run-program.ts'

export interface FenceOptions {
  /** The file of the network namespace that the daemon's bridges are in. Absent: the one that we are in. */
  readonly networkNamespace: string | undefined
  readonly onError: (what: string, error: unknown) => void
}

const TABLE = 'berth_containers'
const BRIDGE_PREFIX = 'berth'
/** With the prefix: the kernel takes 15 characters. */
const BRIDGE_HASH_CHARS = 10
const NFT_MS = 10_000
/** How long rules that somebody has flushed may be missing. */
const RENEW_MS = 60_000
const RESOLVER_FILE = '/etc/resolv.conf'
const MAX_RESOLVERS = 8

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
    iifname "${BRIDGE_PREFIX}*" ct state new goto refuse
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname != "${BRIDGE_PREFIX}*" accept
    ct state != new accept
    ip daddr 169.254.0.0/16 goto refuse
    ip6 daddr { fe80::/10, fd00:ec2::/32 } goto refuse
  }
}
`
}

export class ContainerFence {
  readonly #options: FenceOptions
  /** undefined: nothing was tried yet. null: it can be done, and is while there are containers. Else why it cannot. */
  #why: string | null | undefined
  /** Which way was tried last. An earlier agent may have left rules, so at first neither. */
  #asked: boolean | undefined
  #renewAt = 0
  #isElsewhere = false
  #last: Promise<void> = Promise.resolve()

  constructor(options: FenceOptions) {
    this.#options = options
  }

  /** Puts the rules up even if they seem to be there. Where that fails, the notes say so: it does not throw. */
  raise(): Promise<void> {
    return this.#inTurn(() => this.#apply(true))
  }

  /** Up where there are containers of ours, away where there are none. Cheap where there is nothing to do. */
  tend(hasNetworks: () => Promise<boolean>): Promise<void> {
    return this.#inTurn(async () => {
      // Those of another daemon on this machine are behind the same table.
      const wanted = (await hasNetworks()) || (await this.#hasBridges())
      if (wanted !== this.#asked || performance.now() >= this.#renewAt) await this.#apply(wanted)
    })
  }

  /** After a start. Bridges that are not here, such as those of a daemon in a virtual machine, are beyond our rules. */
  async check(id: string): Promise<void> {
    if (this.#options.networkNamespace !== undefined) return
    this.#isElsewhere = !(await bridgesHere()).includes(bridgeOf(id))
  }

  /** What the owner of the host should know. */
  notes(): readonly string[] {
    const elsewhere = 'the bridges of the container engine are not in the network of the agent.'
    const why = this.#isElsewhere ? elsewhere : this.#why
    if (why === undefined) return []
    return why === null
      ? [`Containers are kept from this host and from link-local addresses (nftables, table inet ${TABLE}).`]
      : [`Containers reach what listens on this host, and link-local addresses: ${why}`]
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work).catch((error: unknown) => this.#failed(error))
    return this.#last
  }

  async #hasBridges(): Promise<boolean> {
    return this.#options.networkNamespace === undefined && (await bridgesHere()).length > 0
  }

  async #apply(isWanted: boolean): Promise<void> {
    this.#asked = isWanted
    this.#renewAt = performance.now() + RENEW_MS
    if (process.getuid?.() !== 0) return void (this.#why = 'the agent does not run as root.')
    const { networkNamespace } = this.#options
    const input = isWanted ? rulesFor(await resolversOfHost()) : noRules
    const options = { signal: new AbortController().signal, timeoutMs: NFT_MS, input }
    if (networkNamespace === undefined) await runProgram('nft', ['-f', '-'], options)
    else await runProgram('nsenter', [`--net=${networkNamespace}`, 'nft', '-f', '-'], options)
    this.#why = null
    if (!isWanted) this.#renewAt = Number.POSITIVE_INFINITY
  }

  #failed(error: unknown): void {
    const words = error instanceof Error ? error.message : String(error)
    if (words !== this.#why) this.#options.onError('rules of nftables', error)
    this.#why = words
  }
}

/** Also those that carry nothing at the moment. None where there is no such file: this is not Linux. */
async function bridgesHere(): Promise<string[]> {
  const text = await readFile('/proc/self/net/dev', 'utf8').catch(() => '')
  return [...text.matchAll(/^\s*([^:\s]+):/gm)]
    .map(([, name = '']) => name)
    .filter((name) => name.startsWith(BRIDGE_PREFIX))
}

/** Those of the host, which the daemon hands on to containers; one on the loopback address it asks by itself. */
async function resolversOfHost(): Promise<string[]> {
  const text = await readFile(RESOLVER_FILE, 'utf8').catch(() => '')
  return [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map(([, address = '']) => address)
    .filter((address) => isIP(address) !== 0 && !address.startsWith('127.') && address !== '::1')
    .slice(0, MAX_RESOLVERS)
}
