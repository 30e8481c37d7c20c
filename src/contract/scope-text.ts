/** Describes each scope of a key in one sentence, for the reference and the console. */
import type { Scope } from './endpoint.ts'

export const scopeTexts: Readonly<Record<Scope, string>> = {
  inference: 'Run models, and view the request log and the cost of requests.',
  'compute:read': 'View machines, rentals, volumes and events.',
  'compute:write': 'Rent, change and terminate machines and volumes. Spends money.',
  'billing:read': 'View the balance, usage, statement and invoices.',
  'billing:write': 'Create, change and delete budgets.',
  keys: 'Manage members, API keys, SSH keys and webhooks. Equivalent to full access.',
  supply: 'Add your own machines, set their prices and view their earnings.',
  operator: 'Full access to every account on this server.',
}
