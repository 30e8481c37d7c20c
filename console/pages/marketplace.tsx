/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function MarketplacePage() {
  return <Page title="Marketplace">…</Page>
}
