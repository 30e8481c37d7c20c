/**
 * Keeps machines off the host that they run on. To the host a machine's connections are QEMU's own: what it sends to
 * 10.0.2.2 arrives on the host's loopback, where services trust whoever comes. So each QEMU gives up root for a user of
 * its own out of a fixed range that nobody else has, and rules of nftables let these users begin no connection to the
 * host's own addresses and to link-local ones, where clouds keep the secrets of their machines. Answers to connections
 * from the host pass, and so do questions for names: QEMU puts them to the host's resolver, which often is on the host.
 *
 * The rules are a table of our own; no other is touched. It is there while there are machines, and is put back when
 * somebody has flushed it. Where we are not root or there is no nftables, machines run without, and the notes say so.
 */
import { randomInt } from 'node:crypto'
import fs from 'node:fs/promises'
import { unlessGone } from './machine-files.ts'
import { runProgram } from '../run-program.ts'

/** Of no range that Debian, systemd or a directory service gives out. */
const FIRST_USER = 2_100_000_000
const USERS = 100_000
const TABLE = 'berth_vm'
const NFT_MS = 10_000
const PICKS = 100

/** Done as a whole, and no error where there is no such table. */
const noRules = `add table inet ${TABLE}\ndelete table inet ${TABLE}\n`
/** All in one go, so there is no moment without rules. */
const rules = `${noRules}table inet ${TABLE} {
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject
  }
  chain output {
    type filter hook output priority filter; policy accept;
    meta skuid < ${FIRST_USER} accept
    meta skuid >= ${FIRST_USER + USERS} accept
    ct state != new accept
    udp dport 53 accept
    tcp dport 53 accept
    fib daddr type { local, broadcast, anycast, multicast } goto refuse
    ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16 } goto refuse
    ip6 daddr { ::/127, fe80::/10, fd00:ec2::/32 } goto refuse
  }
}
`

export interface FenceOptions {
  readonly hasMachines: () => Promise<boolean>
  /** False: machines reach nothing at all, so there is nothing to keep them from. */
  readonly needsRules: boolean
  readonly onError: (what: string, error: unknown) => void
}

export class Fence {
  readonly #options: FenceOptions
  /** undefined: nothing was tried yet. null: it can be done, and is while there are machines. Else why it cannot. */
  #why: string | null | undefined
  #isUp = true
  /** Users that are about to have a process. */
  readonly #given = new Set<number>()
  #last: Promise<void> = Promise.resolve()

  constructor(options: FenceOptions) {
    this.#options = options
  }

  /** Runs `start` behind the rules, with a user for the machine. null: there is none, it stays who we are. */
  async enclose<T>(start: (user: number | null) => Promise<T>): Promise<T> {
    await this.tend()
    if ((await whyNoUsers()) !== undefined) return start(null)
    const user = this.#pick(await processesBehind())
    try {
      return await start(user)
    } finally {
      this.#given.delete(user)
    }
  }

  /** Puts the rules up where there are machines, even if they seem to be there, and takes them away where there are none. */
  tend(): Promise<void> {
    const next = this.#last.then(() => this.#tend())
    this.#last = next.catch(() => {})
    return next
  }

  /** What the owner of the host should know. */
  notes(): readonly string[] {
    if (!this.#options.needsRules || this.#why === undefined) return []
    return this.#why === null
      ? [`Virtual machines are kept from this host and from link-local addresses (nftables, table inet ${TABLE}).`]
      : [`Virtual machines reach what listens on the loopback of this host, at 10.0.2.2: ${this.#why}`]
  }

  async #tend(): Promise<void> {
    if (!this.#options.needsRules) return
    const why = await whyNoUsers()
    if (why !== undefined) return void (this.#why = why)
    const wanted = await this.#isWanted()
    if (!wanted && !this.#isUp) return
    try {
      const signal = new AbortController().signal
      await runProgram('nft', ['-f', '-'], { signal, timeoutMs: NFT_MS, input: wanted ? rules : noRules })
      this.#isUp = wanted
      this.#why = null
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error)
      if (words !== this.#why) this.#options.onError('rules of nftables', error)
      this.#why = words
    }
  }

  /** Another agent's machines on this host are behind the same table. */
  async #isWanted(): Promise<boolean> {
    if (await this.#options.hasMachines()) return true
    const here = await networkOf('self')
    for (const { pid } of await processesBehind()) if ((await networkOf(pid)) === here) return true
    return false
  }

  /** By chance, so that hardly one ever gets what another has had. */
  #pick(taken: readonly Behind[]): number {
    for (let n = 0; n < PICKS; n += 1) {
      const user = FIRST_USER + randomInt(USERS)
      if (this.#given.has(user) || taken.some((one) => one.user === user)) continue
      this.#given.add(user)
      return user
    }
    throw new Error('No free user id was found for the machine')
  }
}

/** Whose a process is. undefined: it has ended. */
export async function userOf(pid: number | string): Promise<number | undefined> {
  return (await fs.stat(`/proc/${pid}`).catch(unlessGone(undefined)))?.uid
}

interface Behind {
  readonly pid: string
  readonly user: number
}

async function processesBehind(): Promise<Behind[]> {
  const found: Behind[] = []
  for (const pid of (await fs.readdir('/proc')).filter((one) => /^\d+$/.test(one))) {
    const user = (await userOf(pid)) ?? 0
    if (user >= FIRST_USER && user < FIRST_USER + USERS) found.push({ pid, user })
  }
  return found
}

/** The name of its network namespace. undefined: it has ended. */
function networkOf(pid: string): Promise<string | undefined> {
  return fs.readlink(`/proc/${pid}/ns/net`).catch(unlessGone(undefined))
}

/** Why machines cannot have users of their own. undefined: they can. */
async function whyNoUsers(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'the agent does not run as root.'
  // In a container root may have few users to give.
  const map = (await fs.readFile('/proc/self/uid_map', 'utf8')).trim().split('\n')
  const isMapped = map.some((line) => {
    const [from = 0, , count = 0] = line.trim().split(/\s+/).map(Number)
    return from <= FIRST_USER && from + count >= FIRST_USER + USERS
  })
  return isMapped ? undefined : `the agent runs in a container that lacks the users from ${FIRST_USER} on.`
}
