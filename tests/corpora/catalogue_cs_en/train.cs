Správa aplikace %(app)s
Položka %(name)s byla úspěšně změněna.
%(counter)s výsledek
Objekt %(name)s s klíčem "%(key)s" neexistuje. Možná byl odstraněn.
Vybrána je %(sel)s položka z celkem %(cnt)s.
6h ráno
6h večer
Operace
Operace:
Přidat
%(name)s: přidat
Přidat další %(model)s
Přidat %(verbose_name)s
Přidán objekt "%(object)s".
Přidáno.
Přidání
Vše
Všechna data
Libovolné datum
Dub
Opravdu má být odstraněny vybrané položky typu %(objects_name)s? Všechny vybrané a s nimi související položky budou odstraněny:
Jste si jisti?
srpen
Dostupné položky: %s
Nelze smazat %(name)s
Změnit
Historie změn: %s
Změnit heslo
Změnit vybrané položky typu %(model)s
Změna:
Změněno: {fields}
Změněn objekt "%(object)s" — %(changes)s
Vybrat
Vyberte datum
Vyberte čas
Vybrat vše
Vybrané položky %s
Zrušit všechny filtry
Zrušit výběr
Zavřít
Datum a čas
Datum:
Pro
prosinec
Odstranit
Odstranit vybrané položky typu %(model)s
Odstranit vybrané položky typu %(verbose_name_plural)s
Odstraněna položka "%(object)s".
Odstranění položky '%(escaped_object)s' typu %(object_name)s by vyžadovalo odstranění souvisejících chráněných položek:
Odstranění položky typu %(objects_name)s by vyústilo v odstranění souvisejících položek. Nemáte však oprávnění k odstranění položek následujících typů:
Správa systému Django
Správa webu Django
Dokumentace
Prázdná hodnota
Zadejte uživatelské jméno a heslo.
P
Úno
únor
Filtr
Nejdříve zadejte uživatelské jméno a heslo. Poté budete moci upravovat více uživatelských nastavení.
Zapomněli jste heslo nebo uživatelské jméno?
Zapomněli jste heslo? Zadejte níže e-mailovou adresu a systém vám odešle postup k nastavení nového.
Provést
Má datum
Skrýt
Výběr více než jedné položky je možný přidržením klávesy "Control", na Macu "Command".
K provedení hromadných operací je třeba vybrat nějaké položky. Nedošlo k žádným změnám.
Led
Čvc
červenec
Čvn
červen
Přihlášení
Přihlaste se znovu
Hledat
Bře
březen
květen
Půlnoc
Moje akce
Nové heslo:
Žádný
Nic
Poledne
Neprázdná hodnota
Poznámka: Váš čas se o %s hodinu zpožďuje za časem na serveru.
listopad
Nyní
Objekty
Říj
říjen
Stránka nenalezena
Změna hesla
Potvrzení obnovy hesla
Posledních 7 dní
Zadejte správné %(username)s a heslo pro personál. Obě pole mohou rozlišovat velká a malá písmena.
Zadejte dvakrát nové heslo. Tak ověříme, že bylo zadáno správně.
Nedávné akce
Odebrat
Odebrat vše
Přestat řadit
Obnovit heslo
Provést vybranou operaci
S
Uložit a přidat další položku
Uložit a pokračovat v úpravách
Uložit a zobrazit
Uložit jako novou položku
%s: vybrat
září
Chyba serveru
Chyba serveru (500)
Správa webu
Priorita řazení: %(priority_number)s
Shrnutí
Č
Děkujeme za používání našeho webu!
Položka "%(obj)s" typu %(name)s byla úspěšně odstraněna.
Položka "{obj}" typu {name} byla úspěšně přidána. Níže ji můžete dále upravovat.
Položka "{obj}" typu {name} byla úspěšně změněna.
Položka "{obj}" typu {name} byla úspěšně změněna. Níže můžete přidat další položku {name}.
Položka typu {name} "{obj}" byla úspěšně změněna. Níže ji můžete dále upravovat.
V systému došlo k chybě. Byla e-mailem nahlášena správcům, kteří by ji měli v krátké době opravit. Děkujeme za trpělivost.
Tento měsíc
Tento rok
Čas:
Přehodit navigaci
Přehodit řazení
Chcete-li filtrovat ze seznamu dostupných položek %s, začněte psát do tohoto pole.
Neznámé
Neznámý obsah
Uživatel
Zobrazit
Zobrazit %s
Zobrazení na webu
Zobrazení webu
S
Vítejte, uživateli
Požadovaná stránka nebyla bohužel nalezena.
Návod na nastavení hesla byl odeslán na zadanou e-mailovou adresu, pokud účet s takovou adresou existuje. Měl by za okamžik dorazit.
Ano
Jste přihlášeni jako uživatel %(username)s, ale k této stránce nemáte oprávnění. Chcete se přihlásit k jinému účtu?
Byla vybrána operace, ale dosud nedošlo k uložení změn jednotlivých polí. Uložíte klepnutím na tlačítko OK. Pak bude třeba operaci spustit znovu.
V jednotlivých polích jsou neuložené změny, které budou ztraceny, pokud operaci provedete.
Níže můžete údaje znovu upravovat.
Tento e-mail vám byl zaslán na základě vyžádání obnovy hesla vašeho uživatelskému účtu na systému %(site_name)s.
Pro jistotu vaše uživatelské jméno:
příznak operace
čas operace
a
zpráva o změně
typ obsahu
položky protokolu
id položky
Hodnotu %(datetime)s nelze interpretovat v časové zóně %(current_timezone)s; může být nejednoznačná nebo nemusí existovat.
před %(delta)s
za %(delta)s
Pole %(field_label)s musí být unikátní testem %(lookup_type)s pro pole %(date_field_label)s.
Vazba z %(from)s do %(to)s
Vazby z %(from)s do %(to)s
Položka %(model_name)s s touto hodnotou v poli %(field_label)s již existuje.
Položka "%(name)s" s primárním klíčem "%(key)r" neexistuje.
%(size)d bajt
%(value)s miliarda
%(value)s kvintiliarda
%(value)s kvintilion
%(value)s kvadriliarda
%(value)s biliarda
%(value)s trilion
%(value)s triliarda
%d den
%d hodina
%d minuta
%d měsíc
%d týden
%d rok
%s GB
%s KB
%s PB
%s TB
Objekt %s patrně není typu urlpattern.
(neexistuje)
,
:
Uživatel s tímto jménem již existuje.
dop.
Pokročilá nastavení
afrikánsky
albánsky
alžírskou arabštinou
Nastala chyba při transformaci geometrie na identifikátor SRID geometrického formulářového pole.
arabsky
argentinskou španělštinou
Argumenty
arménštinou
asturštinou
Srp.
Autentizace a autorizace
ázerbájdžánsky
Zpět na popis modelů
Zpět na popis pohledů
baskicky
bělorusky
bengálsky
Bookmarklety
Pravdivost (buď Ano (True), Ne (False) nebo Nic (None))
brazilskou portugalštinou
bretonsky
britskou angličtinou
Vestavěné filtry
Vestavěné tagy
bulharsky
Selhalo ověření typu CSRF. Požadavek byl zadržen.
katalánsky
Heslo pro uživatele %s: změnit
Zrušit
kolumbijskou španělštinou
Celá čísla oddělená čárkou
Propojte se, získejte pomoc, podílejte se
Typy obsahu
Typ obsahu %(ct_id)s nemá přidružený model.
Kontext:
chorvatsky
Aktuálně
česky
dánsky
Datum (s časem)
Datum (bez času)
Datum je mimo rozsah
Ladicí okno (serializovaná hodnota)
Pro.
Odstranit všechny vlastnosti
Popis
Určuje, že uživatel má veškerá oprávnění bez jejich explicitního přiřazení.
Komunita kolem frameworku Django
Dokumentace frameworku Django
Dokumentace k této stránce
Doba trvání
nizozemsky
Každá stránka na veřejném webu je generována pomocí pohledu. Pohled definuje, která šablona bude použita ke generování stránky a které objekty budou v šabloně k dispozici.
E-mail
E-mailová adresa
List je prázdný a "%(class_name)s.allow_empty" je nastaveno na False
Prázdný jmenný prostor
anglicky
Ujistěte se, že pole neobsahuje více než %(max)s desetinné místo.
Ujistěte se, že hodnota neobsahuje více než %(max)s místo před desetinnou čárkou (tečkou).
Ujistěte se, že pole neobsahuje celkem více než %(max)s číslici.
Nejnižší hodnota rozsahu musí být větší nebo rovna %(limit_value)s.
Nejvyšší hodnota rozsahu musí být menší nebo rovna %(limit_value)s.
Tento název souboru má mít nejvýše %(max)d znak (nyní má %(length)d).
Tato hodnota má mít nejméně %(limit_value)d znak (nyní má %(show_value)d).
Tato hodnota má mít nejvýše %(limit_value)d znak (nyní má %(show_value)d).
Hodnota musí být %(limit_value)s (nyní je %(show_value)s).
Hodnota musí být větší nebo rovna %(limit_value)s.
Zadejte úplnou hodnotu.
Zadejte seznam hodnot.
Zadejte číslo.
Zadejte platnou adresu typu IPv4.
Zadejte platnou strukturu typu JSON.
Zadejte platnou adresu URL.
Zadejte platné UUID.
Zadejte platné datum a čas.
Zadejte platnou délku trvání.
Zadejte platnou e-mailovou adresu.
Zadejte platné celé číslo.
Zadejte platný čas.
Zadejte platné uživatelské jméno. Hodnota může obsahovat pouze písmena bez diakritiky, tj. háčků a čárek, číslice a znaky @/./+/-/_.
Zadejte platné uživatelské jméno. Hodnota může obsahovat pouze písmena, číslice a znaky @/./+/-/_.
Zadejte platnou hodnotu.
Zadejte platný identifikátor složený pouze z písmen, čísel, podtržítek a pomlček typu Unicode.
Vložte platný identifikátor složený pouze z písmen, čísel, podtržítek a pomlček.
Zadejte celé číslo.
Zadejte pouze číslice oddělené čárkami.
Zadejte dvě platné hodnoty data nebo času.
Zadejte dvě platná data.
Zadejte dvě celá čísla.
esperantsky
estonsky
Příklad: "/about/contact". Úvodní lomítko je důležité.
Příklad: "flatpages/kontaktni_stranka.html". Pokud toto není zadáno, bude použita šablona "flatpages/default.html".
Pole Extent Aggregate
Úno.
Pole
Pole typu: %(field_type)s
Pole
Soubor
Přípona souboru "%(extension)s" není povolena. Povolené jsou tyto: %(allowed_extensions)s.
Filtry
finsky
Statické stránky
Číslo s pohyblivou řádovou čárkou
Nepřístupné (Forbidden)
Cizí klíč (typ určen pomocí souvisejícího pole)
francouzsky
pá
pátek
GIS
galicijsky
gruzínštinou
německy
Začínáme s frameworkem Django
řecky
hindsky
Polidštění
maďarsky
Adresa IPv4
idem
Určuje, že tuto stránku uvidí pouze přihlášení uživatelé.
Pokud má váš prohlížeč soubory cookie vypnuté, žádáme vás o jejich zapnutí, alespoň pro tento web nebo pro požadavky typu "stejný původ" (same origin).
Pokud má váš prohlížeč záhlaví "Referer" vypnuté, žádáme vás o jeho zapnutí, alespoň pro tento web nebo pro spojení typu HTTPS nebo pro požadavky typu "stejný původ" (same origin).
igboštinou
Důležitá data
Index adresáře %(directory)s
indonésky
Vstup musí být slovník formátu JSON.
interlingua
Neplatný typ geometrie.
Neplatný formát hesla nebo neplatný hashovací algoritmus.
irsky
italsky
Položka č. %(nth)s v seznamu je neplatná:
Led.
japonsky
kabylštinou
kannadsky
kazašsky
kyrgyzštinou
Úsek čáry
Seznam obsahuje %(show_value)d položku, ale neměl by obsahovat méně než %(limit_value)d.
Seznam obsahuje %(show_value)d položku, ale neměl by obsahovat více než %(limit_value)d.
Seznam všech šablonových tagů a jejich funkce.
litevsky
Odhlášeno
dolnolužickou srbštinou
lucembursky
makedonsky
Data objektu ManagementForm chybí nebo s nimi bylo nedovoleně manipulováno. Chybějící pole: %(field_names)s. Pokud problém přetrvává, budete možná muset problém ohlásit.
Vazba mnoho-mnoho
Mapování řetězců na řetězce či hodnoty NULL
marathi
Metoda
Metody s argumenty
Skupiny modelů
Modely
Modely jsou popisy všech objektů v systému a jejich přidružených polí. Každý model má seznam polí, které mohou být čteny jako proměnné v šablonách.
po
pondělí
mongolsky
V případě zapnutí volby DEBUG=True bude k dispozici více informací.
Mnohonásobný úsek čáry
Mnohonásobný bod
Vnořená pole musejí mít stejnou délku.
Nové heslo
Potvrzení nového hesla
Nepodařilo se nalézt žádný objekt %(verbose_name)s
%(verbose_name_plural)s nejsou k dispozici
Nebyl specifikován den
Žádné dávky nejsou registrované.
Žádný soubor nebyl odeslán.
Soubor nebyl odeslán. Zkontrolujte parametr "encoding type" formuláře.
Nebyl specifikován týden
Nebyl specifikován rok
bokmål norštinou
norsky (Nynorsk)
Lis.
Nulové znaky nejsou povoleny.
Současné heslo
Pořadí
osetštinou
odp.
Požadavek na stránku nemohl být konvertován na celé číslo, ani není "last".
Heslo
Heslo (znovu)
Změna hesla byla úspěšná
Změna hesla byla úspěšná.
Potvrzení hesla
Heslo bylo obnoveno
Obnovení hesla na webu %(site_name)s
Zpráva s obnovením hesla byla odeslána
Obnovení hesla bylo neúspěšné
Oprávnění
persky
Osobní údaje
Opravte duplicitní data v poli %(field)s, které musí být unikátní.
Opravte duplicitní data v poli %(field)s.
Opravte duplicitní data v poli %(field_name)s, které musí být unikátní testem %(lookup)s pole %(date_field)s.
Musíte vybrat cestu k souboru nebo vymazat výběr, ne obojí.
Zadejte správnou hodnotu pole %(username)s a heslo. Pozor, obě pole mohou rozlišovat malá a velká písmena.
Odešlete nejvýše %d formulář.
polsky
portugalsky
Velké kladné celé číslo
Kladné celé číslo
Kladné malé celé číslo
paňdžábsky
Pole Raster
Přímá binární data
Přesměrování
Požadováno. 150 znaků nebo méně. Pouze písmena, číslice a znaky @/./+/-/_.
rusky
so
sobota
Vyberte platnou možnost, "%(value)s" není k dispozici.
srbsky
srbsky (latinkou)
Sezení
čínsky (zjednodušeně)
Mapy webu
Weby
slovensky
slovinsky
Identifikátor %r není registrován.
Malé celé číslo
Některé klíče chybí: %(keys)s
Byly zadány neznámé klíče: %(keys)s
Statické soubory
Řetězec (max. %(max_length)s znaků)
ne
neděle
svahilsky
švédsky
Syndikace
Tádžik
telužsky
Dokumentace šablonových filtrů
Dokumentace šablonových tagů
Šablonové tagy
Šablona: %(name)s
Šablony
Text
thajsky
Stránka je bez výsledků
Číslo stránky není celé číslo.
Základní pole GIS
Základní geometrické datové pole — mapuje se na typ OpenGIS Specification Geometry.
Název domény nemůže obsahovat mezery ani tabulátory.
Skupiny, do kterých tento uživatel patří. Uživatel dostane všechna oprávnění udělená každé z jeho skupin.
Hodnota typu inline neodpovídá rodičovské položce.
Instalace proběhla úspěšně, gratulujeme!
Počet dní musí být mezi {min_days} a {max_days}.
Heslo je příliš podobné obsahu pole %(verbose_name)s.
Počáteční hodnota rozsahu nemůže být vyšší než koncová hodnota.
Odeslaný soubor je prázdný.
Hodnota s klíčem "%(key)s" není řetězec ani NULL.
Tento účet je neaktivní.
Toto by měla být buď absolutní cesta (jako výše) nebo plná adresa URL začínající schématem, tedy například "https://".
Pole nemůže být prázdné.
Pole nemůže být null.
Toto pole je třeba vyplnit.
Toto není platná adresa typu IPv6.
Heslo je příliš běžné.
Heslo je příliš krátké. Musí mít délku aspoň %(min_length)d znak.
Toto by měla být absolutní cesta bez domény. Příklad: "/udalosti/hledat/".
Tato hodnota musí obsahovat pouze písmena, číslice, tečky, podtržítka, pomlčky, lomítka nebo vlnovky.
čt
čtvrtek
Pro nainstalování bookmarkletů, přetáhněte odkaz na vaše záložky („Oblíbené“), nebo klepněte pravým tlačítkem na odkaz a přidejte ho k vašim záložkám. Nyní můžete zvolit bookmarklet z libovolné stránky jakéhokoli webu.
Nástroje pro prohlížeč k rychlému přístupu k funkcím administračního rozhraní.
Témata, odkazy &amp; how-to
čínsky (tradičně)
út
úterý
turecky
Tutoriál: Hlasovací aplikace
Typ
URL
V adrese URL chybí koncové lomítko.
ukrajinsky
Nahrajte platný obrázek. Odeslaný soubor buď nebyl obrázek nebo byl poškozen.
hornolužickou srbštinou
uzbecky
Hodnota %(value)r není platná možnost.
Hodnota musí být platná struktura typu JSON.
venezuelskou španělštinou
vietnamsky
Dokumentace pohledů
Views
Pohledy dle prázdného jmenného prostoru
st
středa
Vaše současné heslo nebylo zadáno správně. Zkuste to znovu.
Vaše heslo nemůže být takové, které je často používané.
Vaše heslo nemůže být čistě číselné.
Heslo nemůže být příliš podobné jinému údaji ve vašem účtu.
Heslo musí mít délku aspoň %(min_length)d znak.
před minutou
za minutu
za sekundu
dop.
aktivní
algoritmus
před hodinou
srp
kontrolní součet
kódový název
obsah
typy obsahu
datum registrace
pro
zobrazený název
název domény
osm
e-mailová adresa
povolit komentáře
datum expirace
úno
filtr:
statická stránka
statické stránky
skupina
skupiny
hash
led
čec
čen
poslední přihlášení
příjmení
bře
kvě
model:
název
devět
poledne
nyní
Počet: %s
říj
jedna
nebo
heslo
oprávnění
oprávnění
název třídy modelu v Pythonu
přesměrovat z
přesměrování
nutná registrace
související položky `%(app_label)s.%(object_name)s`
hodnota salt
zář
sezení
data sezení
klíč sezení
sedm
web
weby
šest
superuživatel
tag:
název šablony
související položka `%(app_label)s.%(data_type)s`
tři
titulek
dnes
zítra
dvě
uživatelská oprávnění
uživatelé
varieta
verze
pohled (view):
faktor práce
včera
{}.
{}.
Cesta "%(path)s" neexistuje
"%(value)s" není platná hodnota typu UUID.
Hodnota "%(value)s" není platné datum. Musí být ve tvaru RRRR-MM-DD.
Hodnota "%(value)s" je v neplatném tvaru, který má být HH:MM[:ss[.uuuuuu]].
Hodnota "%(value)s" je v neplatném tvaru, který má být RRRR-MM-DD HH:MM[:SS[.uuuuuu]][TZ].
Hodnota "%(value)s" je v neplatném tvaru, který má být [DD] [HH:[MM:]]ss[.uuuuuu].
Ačkoli hodnota "%(value)s" je ve správném tvaru (RRRR-MM-DD HH:MM[:SS[.uuuuuu]][TZ]), jde o neplatné datum a čas.
Ačkoli hodnota "%(value)s" je ve správném tvaru (RRRR-MM-DD), jde o neplatné datum.
Hodnota "%(value)s" musí být desítkové číslo.
Hodnota "%(value)s" musí být reálné číslo.
Hodnota "%(value)s" musí být celé číslo.
Hodnota "%(value)s" musí být buď True nebo False.
Hodnota "%(value)s" musí být buď True, False nebo None.
…
