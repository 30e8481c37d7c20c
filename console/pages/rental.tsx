/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function RentalPage() {
  return <Page title="Rental">…</Page>
}
