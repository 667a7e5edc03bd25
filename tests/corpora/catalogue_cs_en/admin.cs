%(class_name)s: %(instance)s
Celkem %(full_result_count)s
%(total_count)s položka vybrána.
Vybraných je 0 položek z celkem %(cnt)s.
%s: přidat
Přidáno: {name} "{object}".
Správa
duben
Opravdu má být odstraněna položka "%(escaped_object)s" typu %(object_name)s? Následující související položky budou všechny odstraněny:
Srp
Dle: %(filter_title)s
Storno
%s: změnit
Změněno: {fields} pro {name} "{object}".
Klepnutím zde vyberete položky ze všech stránek.
Chcete-li najednou vybrat všechny položky %s, klepněte sem.
Chcete-li najednou odebrat všechny vybrané položky %s, klepněte sem.
Potvrdit heslo:
Aktuálně:
Chyba databáze
Odstranit vybrané položky
Odstranit?
Odstraněno: {name} "{object}".
Odstranění položky "%(instance)s" typu %(class_name)s by vyžadovalo odstranění těchto souvisejících chráněných položek: %(related_objects)s
Odstranění položky "%(escaped_object)s" typu %(object_name)s by vyústilo v odstranění souvisejících položek. Nemáte však oprávnění k odstranění položek následujících typů:
Odstranění vybrané položky typu %(objects_name)s by vyžadovalo odstranění následujících souvisejících chráněných položek:
Odstranění
E-mailová adresa:
Historie
Domů
Pokud e-mail neobdržíte, ujistěte se, že zadaná e-mailová adresa je stejná jako ta registrovaná u vašeho účtu a zkontrolujte složku nevyžádané pošty, tzv. spamu.
leden
Odhlásit se
Objekt záznam v protokolu
Modely v aplikaci %(name)s
Ne
Nebyla vybrána žádná operace.
Bez data
Nebyla změněna žádná pole.
Ne, beru zpět
Poznámka: Váš čas o %s hodinu předstihuje čas na serveru.
Lis
Obnovení hesla
Opravte níže uvedenou chybu.
Opravte níže uvedené chyby.
Zadejte svoje současné heslo a poté dvakrát heslo nové. Omezíme tak možnost překlepu.
Přejděte na následující stránku a zadejte nové heslo:
Vyskakovací okno se zavírá...
Uložit
Vyberte položku %s ke změně
Vyberte položku %s k zobrazení
Vybrat všechny položky typu %(module_name)s, celkem %(total_count)s.
Zář
Zobrazit vše
Potíže s nainstalovanou databází. Ujistěte se, že byly vytvořeny odpovídající tabulky a že databáze je přístupná pro čtení příslušným uživatelem.
Úspěšně odstraněno: %(count)d %(items)s.
Děkujeme za čas strávený s tímto webem.
Tým aplikace %(site_name)s
Odkaz pro obnovení hesla byl neplatný, možná již byl použit. Požádejte o obnovení hesla znovu.
Položka typu {name} "{obj}" byla úspěšně přidána.
Položka typu {name} "{obj}" byla úspěšně přidána. Níže můžete přidat další položku {name}.
Seznam dostupných položek %s. Jednotlivě je lze vybrat tak, že na ně v rámečku klepnete a pak klepnete na šipku "Vybrat" mezi rámečky.
Seznam vybraných položek %s. Jednotlivě je lze odebrat tak, že na ně v rámečku klepnete a pak klepnete na šipku "Odebrat mezi rámečky.
Tato položka nemá historii změn. Pravděpodobně nebyla přidána tímto administračním rozhraním.
Dnes
Zítra
Ano, jsem si jist(a)
Včera
Nemáte oprávnění k zobrazení ani úpravám.
Byla vybrána operace, ale dosud nedošlo k uložení změn jednotlivých polí. Patrně využijete tlačítko Provést spíše než tlačítko Uložit.
Vaše heslo bylo nastaveno. Nyní se můžete přihlásit.
Vaše heslo bylo změněno.
položka protokolu
reprez. položky
uživatel
