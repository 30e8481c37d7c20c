/**
 * Every page of the console. Routes, navigation, breadcrumbs, document titles and the tests' list of pages come from
 * this table. A page's code is loaded when it is first opened.
 */
import type { ComponentType } from 'react'
import { z } from 'zod'
import type { Scope } from '../src/contract/endpoint.ts'
import type { IconName } from './ui/icon.tsx'
import { accountsSearch } from './pages/accounts/search.ts'
import { auditSearch } from './pages/audit/search.ts'
import { billingSearch } from './pages/billing/search.ts'
import { costsSearch } from './pages/costs/search.ts'
import { economicsSearch } from './pages/economics/search.ts'
import { eventsSearch } from './pages/events/search.ts'
import { fleetSearch } from './pages/fleet/search.ts'
import { marketplaceSearch } from './pages/marketplace/search.ts'
import { notificationsSearch } from './pages/notifications/search.ts'
import { playgroundSearch } from './pages/playground/search.ts'
import { rentSearch } from './pages/rent/search.ts'
import { rentalSearch } from './pages/rental/search.ts'
import { rentalsSearch } from './pages/rentals/search.ts'
import { requestsSearch } from './pages/requests/search.ts'
import { usageSearch } from './pages/usage/search.ts'
import { volumesSearch } from './pages/volumes/search.ts'

/** Pages in `Home` have no heading above them. */
export const sections = ['Home', 'Machines', 'Models', 'Account', 'Supply', 'Operator'] as const
type Section = (typeof sections)[number]

export interface PageRow<Path extends string = string, Search extends z.ZodObject = z.ZodObject> {
  readonly path: Path
  readonly title: string
  /** Its place in the navigation, or the page that leads to it. */
  readonly in: Section | `/${string}`
  /** In the navigation and in search results. */
  readonly icon?: IconName
  /** In the navigation for keys with one of these scopes. */
  readonly scopes: readonly [Scope, ...Scope[]]
  readonly search: Search
  readonly load: () => Promise<ComponentType>
}

const noSearch = z.object({})

function page<const Path extends string, Search extends z.ZodObject = typeof noSearch>(
  row: Omit<PageRow<Path, Search>, 'search'> & { readonly search?: Search },
): PageRow<Path, Search> {
  return { search: noSearch as z.ZodObject as Search, ...row }
}

const anyKey = ['compute:read', 'billing:read', 'inference', 'keys', 'supply', 'operator'] as const
const compute = ['compute:read', 'compute:write'] as const

export const pages = [
  page({
    path: '/',
    title: 'Overview',
    icon: 'home',
    in: 'Home',
    scopes: anyKey,
    load: async () => (await import('./pages/overview/page.tsx')).OverviewPage,
  }),
  page({
    path: '/tour',
    title: 'Tour',
    icon: 'play',
    in: '/',
    scopes: anyKey,
    load: async () => (await import('./pages/tour/page.tsx')).TourPage,
  }),
  page({
    path: '/marketplace',
    title: 'Marketplace',
    icon: 'store',
    in: 'Machines',
    scopes: compute,
    search: marketplaceSearch,
    load: async () => (await import('./pages/marketplace/page.tsx')).MarketplacePage,
  }),
  page({
    path: '/rent',
    title: 'Rent a machine',
    icon: 'plus',
    in: 'Machines',
    scopes: compute,
    search: rentSearch,
    load: async () => (await import('./pages/rent/page.tsx')).RentPage,
  }),
  page({
    path: '/rentals',
    title: 'Rentals',
    icon: 'server',
    in: 'Machines',
    scopes: compute,
    search: rentalsSearch,
    load: async () => (await import('./pages/rentals/page.tsx')).RentalsPage,
  }),
  page({
    path: '/rentals/$id',
    title: 'Rental',
    in: '/rentals',
    scopes: compute,
    search: rentalSearch,
    load: async () => (await import('./pages/rental/page.tsx')).RentalPage,
  }),
  page({
    path: '/rentals/containers/$id',
    title: 'Container',
    in: '/rentals',
    scopes: compute,
    search: rentalSearch,
    load: async () => (await import('./pages/instance/page.tsx')).InstancePage,
  }),
  page({
    path: '/volumes',
    title: 'Volumes',
    icon: 'disk',
    in: 'Machines',
    scopes: compute,
    search: volumesSearch,
    load: async () => (await import('./pages/volumes/page.tsx')).VolumesPage,
  }),
  page({
    path: '/volumes/$id',
    title: 'Volume',
    in: '/volumes',
    scopes: compute,
    load: async () => (await import('./pages/volume/page.tsx')).VolumePage,
  }),
  page({
    path: '/templates',
    title: 'Templates',
    icon: 'sparkle',
    in: 'Machines',
    scopes: compute,
    load: async () => (await import('./pages/templates/page.tsx')).TemplatesPage,
  }),
  page({
    path: '/events',
    title: 'Events',
    icon: 'clock',
    in: 'Machines',
    scopes: ['compute:read', 'billing:read'],
    search: eventsSearch,
    load: async () => (await import('./pages/events/page.tsx')).EventsPage,
  }),
  page({
    path: '/chat',
    title: 'Chat',
    icon: 'chat',
    in: 'Models',
    scopes: ['inference'],
    search: playgroundSearch,
    load: async () => (await import('./pages/chat/page.tsx')).ChatPage,
  }),
  page({
    path: '/images',
    title: 'Images',
    icon: 'image',
    in: 'Models',
    scopes: ['inference'],
    search: playgroundSearch,
    load: async () => (await import('./pages/images/page.tsx')).ImagesPage,
  }),
  page({
    path: '/speech',
    title: 'Speech',
    icon: 'sound',
    in: 'Models',
    scopes: ['inference'],
    search: playgroundSearch,
    load: async () => (await import('./pages/speech/page.tsx')).SpeechPage,
  }),
  page({
    path: '/deployments',
    title: 'Deployments',
    icon: 'layers',
    in: 'Models',
    scopes: compute,
    load: async () => (await import('./pages/deployments/page.tsx')).DeploymentsPage,
  }),
  page({
    path: '/deployments/new',
    title: 'Deploy a model',
    in: '/deployments',
    scopes: compute,
    load: async () => (await import('./pages/deploy/page.tsx')).DeployPage,
  }),
  page({
    path: '/deployments/$id',
    title: 'Deployment',
    in: '/deployments',
    scopes: compute,
    load: async () => (await import('./pages/deployment/page.tsx')).DeploymentPage,
  }),
  page({
    path: '/requests',
    title: 'Requests',
    icon: 'list',
    in: 'Models',
    scopes: ['inference', 'billing:read'],
    search: requestsSearch,
    load: async () => (await import('./pages/requests/page.tsx')).RequestsPage,
  }),
  page({
    path: '/usage',
    title: 'Usage',
    icon: 'chart',
    in: 'Account',
    scopes: ['billing:read'],
    search: usageSearch,
    load: async () => (await import('./pages/usage/page.tsx')).UsagePage,
  }),
  page({
    path: '/costs',
    title: 'Costs',
    icon: 'money',
    in: 'Account',
    scopes: ['billing:read'],
    search: costsSearch,
    load: async () => (await import('./pages/costs/page.tsx')).CostsPage,
  }),
  page({
    path: '/billing',
    title: 'Billing',
    icon: 'card',
    in: 'Account',
    scopes: ['billing:read'],
    search: billingSearch,
    load: async () => (await import('./pages/billing/page.tsx')).BillingPage,
  }),
  page({
    path: '/notifications',
    title: 'Notifications',
    icon: 'bell',
    in: 'Account',
    scopes: ['compute:read', 'billing:read', 'operator'],
    search: notificationsSearch,
    load: async () => (await import('./pages/notifications/page.tsx')).NotificationsPage,
  }),
  page({
    path: '/keys',
    title: 'API keys',
    icon: 'key',
    in: 'Account',
    scopes: ['keys'],
    load: async () => (await import('./pages/keys/page.tsx')).KeysPage,
  }),
  page({
    path: '/ssh-keys',
    title: 'SSH keys',
    icon: 'terminal',
    in: 'Account',
    scopes: ['keys', 'compute:read'],
    load: async () => (await import('./pages/ssh-keys/page.tsx')).SshKeysPage,
  }),
  page({
    path: '/secrets',
    title: 'Secrets',
    icon: 'lock',
    in: 'Account',
    scopes: compute,
    load: async () => (await import('./pages/secrets/page.tsx')).SecretsPage,
  }),
  page({
    path: '/webhooks',
    title: 'Webhooks',
    icon: 'link',
    in: 'Account',
    scopes: ['keys'],
    load: async () => (await import('./pages/webhooks/page.tsx')).WebhooksPage,
  }),
  page({
    path: '/webhooks/$id',
    title: 'Webhook',
    in: '/webhooks',
    scopes: ['keys'],
    load: async () => (await import('./pages/webhook/page.tsx')).WebhookPage,
  }),
  page({
    path: '/members',
    title: 'Members',
    icon: 'users',
    in: 'Account',
    scopes: ['keys'],
    load: async () => (await import('./pages/members/page.tsx')).MembersPage,
  }),
  page({
    path: '/supply',
    title: 'My machines',
    icon: 'chip',
    in: 'Supply',
    scopes: ['supply'],
    load: async () => (await import('./pages/supply/page.tsx')).SupplyPage,
  }),
  page({
    path: '/supply/join',
    title: 'Join a machine',
    icon: 'plug',
    in: 'Supply',
    scopes: ['supply'],
    load: async () => (await import('./pages/join/page.tsx')).JoinPage,
  }),
  page({
    path: '/supply/earnings',
    title: 'Earnings',
    icon: 'money',
    in: 'Supply',
    scopes: ['supply'],
    load: async () => (await import('./pages/earnings/page.tsx')).EarningsPage,
  }),
  page({
    path: '/operator',
    title: 'Operator home',
    icon: 'gauge',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/operator/page.tsx')).OperatorPage,
  }),
  page({
    path: '/operator/traffic',
    title: 'Traffic',
    icon: 'activity',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/traffic/page.tsx')).TrafficPage,
  }),
  page({
    path: '/operator/accounts',
    title: 'Accounts',
    icon: 'building',
    in: 'Operator',
    scopes: ['operator'],
    search: accountsSearch,
    load: async () => (await import('./pages/accounts/page.tsx')).AccountsPage,
  }),
  page({
    path: '/operator/accounts/$id',
    title: 'Account',
    in: '/operator/accounts',
    scopes: ['operator'],
    load: async () => (await import('./pages/account/page.tsx')).AccountPage,
  }),
  page({
    path: '/operator/prices',
    title: 'Prices',
    icon: 'tag',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/prices/page.tsx')).PricesPage,
  }),
  page({
    path: '/operator/models',
    title: 'Models',
    icon: 'cube',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/models/page.tsx')).ModelsPage,
  }),
  page({
    path: '/operator/economics',
    title: 'Economics',
    icon: 'chart',
    in: 'Operator',
    scopes: ['operator'],
    search: economicsSearch,
    load: async () => (await import('./pages/economics/page.tsx')).EconomicsPage,
  }),
  page({
    path: '/operator/fleet',
    title: 'Fleet',
    icon: 'layers',
    in: 'Operator',
    scopes: ['operator'],
    search: fleetSearch,
    load: async () => (await import('./pages/fleet/page.tsx')).FleetPage,
  }),
  page({
    path: '/operator/audit',
    title: 'Audit',
    icon: 'shield',
    in: 'Operator',
    scopes: ['operator'],
    search: auditSearch,
    load: async () => (await import('./pages/audit/page.tsx')).AuditPage,
  }),
  page({
    path: '/operator/ledger',
    title: 'Ledger',
    icon: 'book',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/ledger/page.tsx')).LedgerPage,
  }),
] as const

/** The page that leads to this one; undefined: it is in the navigation. */
export function parentOf(row: Pick<PageRow, 'in'>): PageRow | undefined {
  return pages.find(({ path }) => path === row.in)
}
