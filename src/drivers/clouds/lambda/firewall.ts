/**
 * Firewall rulesets of Lambda. The ruleset of the account applies to every instance and usually opens port 22 only; an
 * order with ports gets its own ruleset under its tag, in its region. A ruleset can be deleted once no instance uses
 * it.
 */
import { CloudError, type CloudHttp } from '../http.ts'
import { anything, createdRuleset, rulesets } from './api.ts'

const PATH = '/api/v1/firewall-rulesets'
export const RULESET = 'firewall-ruleset'

export class FirewallRulesets {
  readonly #http: CloudHttp

  constructor(http: CloudHttp) {
    this.#http = http
  }

  /** Returns the id of the ruleset of an earlier attempt, or of a new one. */
  async open(tag: string, region: string, ports: readonly number[], signal: AbortSignal): Promise<string> {
    const existing = (await this.list(tag, signal)).find((one) => one.tag === tag)
    if (existing !== undefined) return existing.id
    const rules = ports.map((port) => ({
      protocol: 'tcp',
      port_range: [port, port],
      source_network: '0.0.0.0/0',
      description: `Port ${port}`,
    }))
    const body = { name: tag, region, rules }
    const { data } = await this.#http.write(createdRuleset, { method: 'POST', path: PATH, body, signal })
    return data.id
  }

  async list(tagPrefix: string, signal: AbortSignal) {
    const { data } = await this.#http.read(rulesets, { path: PATH, signal })
    const ours = data.filter(({ name }) => name.startsWith(tagPrefix))
    return ours.map(({ id, name }) => ({ id, tag: name, what: RULESET }))
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    const path = `${PATH}/${encodeURIComponent(id)}`
    await this.#http.write(anything, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!(error instanceof CloudError) || error.status !== 404) throw error
    })
  }
}
