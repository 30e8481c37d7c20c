/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function RentalsPage() {
  return <Page title="Rentals">…</Page>
}
