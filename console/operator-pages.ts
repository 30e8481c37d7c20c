/** The operator's part of the table of pages. */
import { page } from './page-row.ts'
import { accountsSearch } from './pages/accounts/search.ts'
import { auditSearch } from './pages/audit/search.ts'
import { economicsSearch } from './pages/economics/search.ts'
import { fleetSearch } from './pages/fleet/search.ts'
import { mailSearch } from './pages/mail/search.ts'
import { peopleSearch } from './pages/people/search.ts'
import { providerSearch } from './pages/provider/search.ts'
import { ssoSearch } from './pages/sso/search.ts'

export const operatorPages = [
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
    path: '/operator/people',
    title: 'People',
    icon: 'users',
    in: 'Operator',
    scopes: ['operator'],
    search: peopleSearch,
    load: async () => (await import('./pages/people/page.tsx')).PeoplePage,
  }),
  page({
    path: '/operator/sso',
    title: 'Sign-in providers',
    icon: 'key',
    in: 'Operator',
    scopes: ['operator'],
    search: ssoSearch,
    load: async () => (await import('./pages/sso/page.tsx')).SsoPage,
  }),
  page({
    path: '/operator/terms',
    title: 'Terms',
    icon: 'docs',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/operator-terms/page.tsx')).OperatorTermsPage,
  }),
  page({
    path: '/operator/mail',
    title: 'Mail',
    icon: 'mail',
    in: 'Operator',
    scopes: ['operator'],
    search: mailSearch,
    load: async () => (await import('./pages/mail/page.tsx')).MailPage,
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
    path: '/operator/providers',
    title: 'Providers',
    icon: 'cloud',
    in: 'Operator',
    scopes: ['operator'],
    load: async () => (await import('./pages/providers/page.tsx')).ProvidersPage,
  }),
  page({
    path: '/operator/providers/$name',
    title: 'Provider account',
    in: '/operator/providers',
    scopes: ['operator'],
    search: providerSearch,
    load: async () => (await import('./pages/provider/page.tsx')).ProviderPage,
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
