/** The firewall rulesets of the simulated Lambda: per region, with unique names, and kept while an instance uses them. */
import { json, routesBelow, type SimAnswer, type SimRoute } from '../server.ts'

interface Ruleset {
  readonly id: string
  readonly name: string
  readonly region: string
  readonly rules: readonly unknown[]
}

interface Around {
  readonly newId: () => string
  readonly now: () => string
  /** Instances that use it. */
  readonly usersOf: (id: string) => string[]
  readonly failure: (status: number, code: string) => SimAnswer
}

export class SimRulesets {
  readonly #around: Around
  readonly #rulesets = new Map<string, Ruleset & { readonly created: string }>()

  constructor(around: Around) {
    this.#around = around
  }

  all(): Ruleset[] {
    return [...this.#rulesets.values()]
  }

  has(id: string, region: string): boolean {
    return this.#rulesets.get(id)?.region === region
  }

  routes(): SimRoute[] {
    const route = routesBelow('/api/v1/firewall-rulesets')
    return [
      route('listFirewallRulesets', 'GET', '', () => json({ data: this.all().map((one) => this.#show(one)) })),
      route('createFirewallRuleset', 'POST', '', ({ body }) => this.#create(body as Omit<Ruleset, 'id'>)),
      route('deleteFirewallRuleset', 'DELETE', '/:id', ({ params }) => this.#delete(params.id ?? '')),
    ]
  }

  #create({ name, region, rules }: Omit<Ruleset, 'id'>): SimAnswer {
    if (this.all().some((one) => one.name === name)) return this.#around.failure(400, 'global/duplicate')
    const ruleset = { id: this.#around.newId(), name, region, rules, created: this.#around.now() }
    this.#rulesets.set(ruleset.id, ruleset)
    return { status: 200, body: { data: this.#show(ruleset) } }
  }

  #delete(id: string): SimAnswer {
    if (!this.#rulesets.has(id)) return this.#around.failure(404, 'global/object-does-not-exist')
    if (this.#around.usersOf(id).length > 0)
      return this.#around.failure(400, 'firewall-rulesets/firewall-ruleset-in-use')
    this.#rulesets.delete(id)
    return { status: 200, body: { data: {} } }
  }

  #show(ruleset: Ruleset) {
    const region = { name: ruleset.region, description: `Region ${ruleset.region}` }
    return { ...ruleset, region, instance_ids: this.#around.usersOf(ruleset.id) }
  }
}
