/** What the navigation shows, by who may use it. */
import type { Scope } from '../../src/contract/endpoint.ts'

interface Place {
  readonly to: string
  readonly label: string
  /** Shown to keys that have one of these. */
  readonly scopes: readonly [Scope, ...Scope[]]
}

export interface Section {
  readonly title: string
  readonly places: readonly Place[]
}

const compute = ['compute:read', 'compute:write'] as const
const billing = ['billing:read'] as const
const keys = ['keys'] as const

export const sections = [
  {
    title: 'Machines',
    places: [
      {
        to: '/',
        label: 'Overview',
        scopes: ['compute:read', 'billing:read', 'inference', 'keys', 'supply', 'operator'],
      },
      { to: '/marketplace', label: 'Marketplace', scopes: compute },
      { to: '/rent', label: 'Rent a machine', scopes: compute },
      { to: '/rentals', label: 'Rentals', scopes: compute },
      { to: '/volumes', label: 'Volumes', scopes: compute },
      { to: '/events', label: 'Events', scopes: ['compute:read', 'billing:read'] },
    ],
  },
  {
    title: 'Models',
    places: [
      { to: '/chat', label: 'Chat', scopes: ['inference'] },
      { to: '/pictures', label: 'Pictures', scopes: ['inference'] },
      { to: '/speech', label: 'Speech', scopes: ['inference'] },
      { to: '/requests', label: 'Requests', scopes: ['inference', 'billing:read'] },
    ],
  },
  {
    title: 'Account',
    places: [
      { to: '/usage', label: 'Usage', scopes: billing },
      { to: '/billing', label: 'Billing', scopes: billing },
      { to: '/keys', label: 'API keys', scopes: keys },
      { to: '/ssh-keys', label: 'SSH keys', scopes: ['keys', 'compute:read'] },
      { to: '/webhooks', label: 'Webhooks', scopes: keys },
      { to: '/members', label: 'Members', scopes: keys },
    ],
  },
  {
    title: 'Supply',
    places: [
      { to: '/supply', label: 'My machines', scopes: ['supply'] },
      { to: '/supply/join', label: 'Join a machine', scopes: ['supply'] },
      { to: '/supply/earnings', label: 'Earnings', scopes: ['supply'] },
    ],
  },
  {
    title: 'Operator',
    places: [
      { to: '/operator', label: 'Traffic', scopes: ['operator'] },
      { to: '/operator/accounts', label: 'Accounts', scopes: ['operator'] },
      { to: '/operator/prices', label: 'Prices', scopes: ['operator'] },
      { to: '/operator/models', label: 'Models', scopes: ['operator'] },
      { to: '/operator/fleet', label: 'Fleet', scopes: ['operator'] },
      { to: '/operator/audit', label: 'Audit', scopes: ['operator'] },
      { to: '/operator/ledger', label: 'Ledger', scopes: ['operator'] },
    ],
  },
] as const satisfies readonly Section[]
