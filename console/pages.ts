/**
 * Every page of the console. Routes, navigation, breadcrumbs, document titles and the tests' list of pages come from
 * this table and that of the operator's pages. A page's code is loaded when it is first opened.
 */
import { operatorPages } from './operator-pages.ts'
import { page, type PageRow } from './page-row.ts'
import { billingSearch } from './pages/billing/search.ts'
import { costsSearch } from './pages/costs/search.ts'
import { deploySearch } from './pages/deploy/search.ts'
import { eventsSearch } from './pages/events/search.ts'
import { jobSearch } from './pages/job/search.ts'
import { marketplaceSearch } from './pages/marketplace/search.ts'
import { membersSearch } from './pages/members/search.ts'
import { notificationsSearch } from './pages/notifications/search.ts'
import { playgroundSearch } from './pages/playground/search.ts'
import { rentSearch } from './pages/rent/search.ts'
import { rentalSearch } from './pages/rental/search.ts'
import { rentalsSearch } from './pages/rentals/search.ts'
import { requestsSearch } from './pages/requests/search.ts'
import { securitySearch } from './pages/security/search.ts'
import { usageSearch } from './pages/usage/search.ts'
import { volumesSearch } from './pages/volumes/search.ts'

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
    path: '/jobs',
    title: 'Jobs',
    icon: 'play',
    in: 'Machines',
    scopes: compute,
    load: async () => (await import('./pages/jobs/page.tsx')).JobsPage,
  }),
  page({
    path: '/jobs/schedules',
    title: 'Job schedules',
    in: '/jobs',
    scopes: compute,
    load: async () => (await import('./pages/job-schedules/page.tsx')).JobSchedulesPage,
  }),
  page({
    path: '/jobs/$id',
    title: 'Job',
    in: '/jobs',
    scopes: compute,
    search: jobSearch,
    load: async () => (await import('./pages/job/page.tsx')).JobPage,
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
    path: '/transcription',
    title: 'Transcription',
    icon: 'microphone',
    in: 'Models',
    scopes: ['inference'],
    search: playgroundSearch,
    load: async () => (await import('./pages/transcription/page.tsx')).TranscriptionPage,
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
    path: '/deployments/catalog',
    title: 'Model catalog',
    in: '/deployments',
    scopes: compute,
    load: async () => (await import('./pages/catalog/page.tsx')).CatalogPage,
  }),
  page({
    path: '/deployments/new',
    title: 'Deploy a model',
    in: '/deployments',
    scopes: compute,
    search: deploySearch,
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
    path: '/batches',
    title: 'Batches',
    icon: 'stack',
    in: 'Models',
    scopes: ['inference'],
    load: async () => (await import('./pages/batches/page.tsx')).BatchesPage,
  }),
  page({
    path: '/batches/$id',
    title: 'Batch',
    in: '/batches',
    scopes: ['inference'],
    load: async () => (await import('./pages/batch/page.tsx')).BatchPage,
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
    search: membersSearch,
    load: async () => (await import('./pages/members/page.tsx')).MembersPage,
  }),
  page({
    path: '/security',
    title: 'Security',
    icon: 'shield',
    in: 'Account',
    scopes: anyKey,
    forPeople: true,
    search: securitySearch,
    load: async () => (await import('./pages/security/page.tsx')).SecurityPage,
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
  ...operatorPages,
] as const

/** The page that leads to this one; undefined: it is in the navigation. */
export function parentOf(row: Pick<PageRow, 'in'>): PageRow | undefined {
  return pages.find(({ path }) => path === row.in)
}
